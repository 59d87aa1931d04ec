-- Every attempt of the tasks of one run. $1 dag_id, $2 run_id, $3 task_id or null.
select t.task_id, t.map_index, a.number, a.outcome, a.exit_code, a.error, a.started_at, a.finished_at,
       a.worker, t.id as task_key, r.id as run_key
from run r
join dag d on d.id = r.dag_id
join task t on t.run_id = r.id
join attempt a on a.task_id = t.id
where d.dag_id = $1 and r.run_id = $2 and ($3::text is null or t.task_id = $3)
order by t.task_no, t.map_index, a.number
