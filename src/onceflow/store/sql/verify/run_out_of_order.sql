-- A run is still queued though a later one of its DAG was started.
select d.dag_id, r.run_id, r.ordinal, l.started as started_ordinal
from run r
join (select dag_id, max(ordinal) as started from run where state <> 'queued' group by 1) l
  on l.dag_id = r.dag_id and l.started > r.ordinal
join dag d on d.id = r.dag_id
where r.state = 'queued'
order by r.id limit $1
