-- The runs of those events. $1 events.
with run as (
  insert into run (dag_id, run_id, run_type, state, ordinal, start_event, decision_id, version_id, created_by, started_at, finished_at)
  select d.id, 'r' || e.seq, 'asset_triggered', 'success', e.seq, e.id, 1 + e.seq % ($1 / 100), d.version_id, '{}', clock_timestamp(),
         clock_timestamp()
  from event e, (select d.id, v.id as version_id from dag d join dag_version v on v.dag_id = d.id) d
  returning id, start_event
), settled as (
  update delivery y set disposition = 'started', judged = true, run_id = r.id, decided_at = clock_timestamp()
  from run r where r.start_event = y.event_id
), task as (
  insert into task (run_id, task_no, task_id, state, attempt, finished_at)
  select id, 0, 'work', 'success', 1, clock_timestamp() from run returning id
)
insert into attempt (task_id, number, token, worker, finished_at, outcome)
select id, 1, gen_random_uuid(), gen_random_uuid(), clock_timestamp(), 'success' from task
