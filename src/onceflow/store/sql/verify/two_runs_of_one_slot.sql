-- A timed DAG has two runs of one slot, beside reruns.
select d.dag_id, r.logical_date, count(*) as runs, array_agg(r.run_id order by r.id) as run_ids
from run r join dag d on d.id = r.dag_id
where r.logical_date is not null and r.run_type <> 'rerun'
group by d.dag_id, r.logical_date having count(*) > 1
order by 1, 2 limit $1
