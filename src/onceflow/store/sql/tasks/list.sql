-- Task instances with their last attempt, by run and place in the DAG.
-- $1 dag_id, $2 run_id, $3 state; null = any. $4 limit (the newest runs' first then).
select d.dag_id, r.run_id, t.task_id, t.map_index, t.state, t.attempt, t.failures, t.losses, t.queued_at, t.started_at,
       t.finished_at, t.retry_at, t.owner, t.executor, t.queue, a.outcome, a.exit_code, a.error, t.id as task_key,
       r.id as run_key
from task t
join run r on r.id = t.run_id
join dag d on d.id = r.dag_id
left join attempt a on a.task_id = t.id and a.number = t.attempt
where ($1::text is null or d.dag_id = $1)
  and ($2::text is null or r.run_id = $2)
  and ($3::text is null or t.state::text = $3)
order by case when $4::bigint is null then r.id else -r.id end, t.task_no, t.map_index
limit $4
