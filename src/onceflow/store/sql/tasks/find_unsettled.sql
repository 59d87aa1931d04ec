-- Runs with tasks whose end has not been acted on, or whose retry is due.
with recursive unsettled as (
  (select t.run_id from task t where not t.settled order by t.run_id limit 1)
  union all
  select (select t.run_id from task t where not t.settled and t.run_id > u.run_id order by t.run_id limit 1)
  from unsettled u where u.run_id is not null
)
(select run_id from unsettled where run_id is not null limit $1)
union
(select t.run_id from task t where t.state = 'up_for_retry' and t.retry_at <= (select coalesce($2, clock_timestamp())) limit $1)
