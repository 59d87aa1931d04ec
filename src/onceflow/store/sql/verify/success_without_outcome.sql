-- G6: a task that ran and is a success has a last attempt that was one.
select d.dag_id, r.run_id, t.task_id, t.map_index, t.attempt, a.outcome
from task t
join run r on r.id = t.run_id
join dag d on d.id = r.dag_id
join attempt a on a.task_id = t.id and a.number = t.attempt
where t.state = 'success' and a.outcome <> 'success'
order by t.id limit $1
