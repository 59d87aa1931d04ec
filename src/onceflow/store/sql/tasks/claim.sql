-- Hands queued tasks to a worker: raises the attempt, issues its token, opens the attempt's row. The best of each queue
-- come from the index in their order, so the length of the queues does not matter; nor does what the planner thinks of it,
-- hence the array and the laterals: looked up one by one, never joined.
with chosen as materialized (
  select b.id from (select distinct unnest($4::text[])) as q (queue)
  cross join lateral (
    select t.id, t.priority from task t where t.state = 'queued' and t.executor = $3 and t.queue = q.queue
    order by t.priority desc, t.id limit $2 for no key update skip locked
  ) b
  order by b.priority desc, b.id limit $2
), claimed as (
  update task t set state = 'running', attempt = t.attempt + 1, owner = $1, token = gen_random_uuid(),
    lease_until = coalesce($6, clock_timestamp()) + make_interval(secs => $5), started_at = coalesce($6, clock_timestamp()),
    finished_at = null
  where t.id = any (array(select c.id from chosen c)) returning t.*
), opened as (
  insert into attempt (task_id, number, token, worker, started_at)
  select c.id, c.attempt, c.token, $1, c.started_at from claimed c
)
select c.id, c.run_id, c.task_id, c.map_index, c.attempt, c.token, c.failures, c.losses, r.version_id, r.source_hash, r.run_id as run_name,
  r.run_type::text, r.logical_date, r.conf, r.created_at, r.started_at, r.start_event, r.downstream, d.dag_id
from claimed c
cross join lateral (select x.* from run x where x.id = c.run_id limit 1) r
cross join lateral (select x.* from dag x where x.id = r.dag_id limit 1) d
order by c.priority desc, c.id
