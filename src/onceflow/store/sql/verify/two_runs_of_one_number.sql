-- Two runs of a DAG have the same ordinal or the same run id, or an ordinal the DAG never gave.
select d.dag_id, r.ordinal, count(*) as runs, array_agg(r.run_id order by r.id) as run_ids
from run r join dag d on d.id = r.dag_id
group by d.dag_id, d.ordinal, r.ordinal having count(*) > 1 or r.ordinal > d.ordinal
union all
select d.dag_id, min(r.ordinal), count(*), array_agg(r.run_id order by r.id)
from run r join dag d on d.id = r.dag_id
group by d.dag_id, r.run_id having count(*) > 1
order by 1, 2 limit $1
