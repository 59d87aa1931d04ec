-- An asset run without the record of why it was made, or with another DAG's.
select d.dag_id, r.run_id, r.decision_id as decision, c.dag_id as decision_dag
from run r
join dag d on d.id = r.dag_id
left join decision c on c.id = r.decision_id
where r.run_type = 'asset_triggered' and (c.id is null or c.dag_id <> r.dag_id)
order by r.id limit $1
