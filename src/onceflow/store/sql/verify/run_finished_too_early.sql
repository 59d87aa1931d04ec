-- A finished run has a task that is not finished.
select d.dag_id, r.run_id, r.state, t.task_id, t.map_index, t.state as task_state
from task t
join run r on r.id = t.run_id
join dag d on d.id = r.dag_id
where r.state in ('success', 'failed') and t.state not in ('success', 'failed', 'skipped', 'upstream_failed', 'removed')
order by t.id limit $1
