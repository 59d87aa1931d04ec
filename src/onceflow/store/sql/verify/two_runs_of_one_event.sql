-- G3: two runs of a DAG have the same start event.
select d.dag_id, r.start_event as event, count(*) as runs, array_agg(r.run_id order by r.id) as run_ids
from run r
join dag d on d.id = r.dag_id
where r.start_event is not null
group by d.dag_id, r.start_event having count(*) > 1
order by 1, 2 limit $1
