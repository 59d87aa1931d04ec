-- A continuous DAG has more than one run of its schedule that is not finished.
select d.dag_id, count(*) as runs, array_agg(r.run_id order by r.id) as run_ids
from dag d join run r on r.dag_id = d.id
where d.schedule_kind = 'continuous' and r.run_type = 'scheduled' and r.state in ('queued', 'running')
group by d.dag_id having count(*) > 1
order by 1 limit $1
