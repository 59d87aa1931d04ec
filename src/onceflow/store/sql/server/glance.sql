-- What there is to do, looked at once for all services of a scheduler: one index probe each. $1: may leases be taken over?
-- $2: with so many runs in the queue a timed DAG gets no more.
-- (A clock in a subselect can be looked up in an index; by itself it is compared with every row there.)
select
  exists (select 1 from delivery where disposition = 'pending' and not judged)
    or exists (select 1 from dag where active and not paused and judge_at <= (select clock_timestamp()))
    or exists (
      select 1 from dag d
      where d.active and not d.paused and d.judge_at = 'infinity' and d.max_active_runs > (select count(*) from (
        (select 1 from run r where r.dag_id = d.id and r.state = 'running' limit d.max_active_runs)
        union all
        (select 1 from run r where r.dag_id = d.id and r.state = 'queued' limit d.max_active_runs)) x)) as delivery,
  exists (select 1 from run where state = 'queued') as run,
  exists (select 1 from task where not settled)
    or exists (select 1 from task where state = 'up_for_retry' and retry_at <= (select clock_timestamp())) as finish,
  exists (
    select 1 from dag d
    where d.active and not d.paused and d.next_slot_at <= (select clock_timestamp()) and d.schedule_kind <> 'continuous'
      and not exists (select 1 from run r where r.dag_id = d.id and r.state = 'queued' offset $2 - 1))
    or exists (select 1 from dag where active and not paused and schedule_kind = 'continuous') as dag,
  exists (select 1 from task where state = 'running' and lease_until <= (select case when $1 then clock_timestamp() else '-infinity' end))
    or $1 and exists (select 1 from process where state = 'running' and lease_until < (select clock_timestamp())) as rescue,
  exists (select 1 from subscription where catching_up) as catch_up,
  exists (select 1 from canary where judged_at is null) as canary,
  exists (select 1 from dag where active and not paused and release_at <= (select clock_timestamp())) as release,
  exists (select 1 from run where state = 'running' and deadline_at <= (select clock_timestamp())) as expire
