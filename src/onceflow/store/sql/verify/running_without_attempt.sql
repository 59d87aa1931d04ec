-- G6: a running task has one open attempt, with the task's number, token and owner.
select d.dag_id, r.run_id, t.task_id, t.map_index, t.attempt, t.owner
from task t
join run r on r.id = t.run_id
join dag d on d.id = r.dag_id
left join attempt a on a.task_id = t.id and a.number = t.attempt and a.token = t.token and a.worker = t.owner
                       and a.outcome is null
where t.state = 'running' and a.task_id is null
order by t.id limit $1
