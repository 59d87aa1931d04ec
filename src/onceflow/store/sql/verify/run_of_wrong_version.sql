-- A run's version belongs to another DAG.
select d.dag_id, r.run_id, r.version_id, v.dag_id as version_dag
from run r join dag d on d.id = r.dag_id join dag_version v on v.id = r.version_id
where v.dag_id <> r.dag_id
order by r.id limit $1
