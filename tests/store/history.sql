-- A database that has seen something: for the tests of plans. Nothing here is under way unless a line says so.
insert into dag_file (path) values ('f.py');
insert into dag_file (path) select 'f' || n || '.py' from generate_series(1, 500) n;
insert into process (id, kind, host, pid, parent_pid, version, lease_until, state, ended_at)
select gen_random_uuid(), 'worker', 'h', 1, 1, '0', clock_timestamp(), 'dead', clock_timestamp() from generate_series(1, 2000);
insert into process (id, kind, host, pid, parent_pid, version, lease_until)
select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'triggerer', 'h', 1, 1, '0', clock_timestamp() + interval '1 h'
from generate_series(1, 3) n;

-- 1 to 10 consume by Each, 11 by All; 12 is paused and holds much, 13 is busy; then timed, continuous and idle ones
insert into dag (dag_id, file_id, paused, schedule_kind, max_active_runs)
select n, 1, n = 'held', k, 16
from unnest(array['each1','each2','each3','each4','each5','each6','each7','each8','each9','each10','all1','held','busy'],
            array_fill('asset:each'::text, array[10]) || array['asset:all','asset:each','none']) as u (n, k);
insert into dag (dag_id, file_id, paused, schedule_kind, max_active_runs, next_slot_at)
select k || n, 1 + n, false, k, 16, case when k = 'cron' then clock_timestamp() + interval '1 h' end
from generate_series(1, 500) n, unnest(array['cron', 'continuous', 'none']) k;
insert into dag_version (dag_id, number, spec_hash, spec) select id, 1, 'x', '{}' from dag;
update dag d set version_id = v.id from dag_version v where v.dag_id = d.id;

insert into asset (name, uri) select 'asset' || n, 'uri://' || n from generate_series(1, 3000) n;
insert into subscription (asset_id, dag_id, from_seq) select 1, id, 1 from dag where id <= 12;
update asset set seq = 50000, subscribers = array(select generate_series(1, 12)) where id = 1;
insert into event (asset_id, seq, key, extra, source, sighting, hash)
select 1, n, n::text, '{}', '{}', gen_random_uuid(), md5(n::text)::uuid from generate_series(1, 50000) n;
insert into change_key (asset_id, hash, event_id) select 1, hash, id from event;

-- ten runs in a row have one event each of DAGs 1 to 10
insert into decision (dag_id, version_id, process_id, explanation)
select 1 + n % 10, 1 + n % 10, gen_random_uuid(), '{}' from generate_series(1, 100) n;
insert into delivery (event_id, dag_id, asset_id) select n, 1 + n % 10, 1 from generate_series(1, 50000) n;
insert into run (dag_id, run_id, run_type, state, ordinal, start_event, decision_id, version_id, created_by, started_at, finished_at)
select 1 + n % 10, 'r' || n, 'asset_triggered', 'success', n, n, 1 + n % 100, 1 + n % 10, '{}', clock_timestamp(), clock_timestamp()
from generate_series(1, 50000) n;
update delivery y set disposition = 'started', judged = true, run_id = r.id, decided_at = clock_timestamp()
from run r where r.start_event = y.event_id and r.dag_id = y.dag_id;
insert into task (run_id, task_no, task_id, state, attempt, finished_at)
select r.id, n, 't' || n, 'success', 1, clock_timestamp() from run r, generate_series(0, 1) n;
insert into attempt (task_id, number, token, worker, finished_at, outcome)
select id, 1, gen_random_uuid(), gen_random_uuid(), clock_timestamp(), 'success' from task;

-- what is under way: pending for 1 and 11, much held for 12, 20 queued and 10 running runs of 13, tasks of every kind
insert into delivery (event_id, dag_id, asset_id) select n, 1, 1 from generate_series(49999, 50000) n on conflict do nothing;
insert into delivery (event_id, dag_id, asset_id, judged) select n, 11, 1, n <> 50000 from generate_series(49990, 50000) n;
insert into delivery (event_id, dag_id, asset_id, disposition, judged, reason)
select n, 12, 1, 'held', true, 'pause' from generate_series(1, 30000) n;
insert into delivery (event_id, dag_id, asset_id) select 30001, 12, 1;
insert into run (dag_id, run_id, run_type, state, ordinal, version_id, created_by, started_at, deadline_at)
select 13, 'b' || n, 'manual', 'running', n, 13, '{}', clock_timestamp(), clock_timestamp() + interval '1 h' from generate_series(1, 10) n;
insert into run (dag_id, run_id, run_type, ordinal, version_id, created_by)
select 13, 'q' || n, 'manual', n, 13, '{}' from generate_series(11, 30) n;
update dag set ordinal = 100000 where id <= 13;
insert into run (dag_id, run_id, run_type, state, ordinal, logical_date, version_id, created_by, started_at, finished_at)
select d.id, 'c' || n, 'scheduled', 'success', n, '2026-01-01'::timestamptz + n * interval '1 s', d.version_id, '{}', clock_timestamp(),
       clock_timestamp()
from (select * from dag where schedule_kind = 'continuous' order by id limit 1) d, generate_series(1, 5000) n;
update dag set ordinal = 5000 where id in (select dag_id from run where run_id = 'c1');
insert into task (run_id, task_no, task_id, state, attempt, owner, token, lease_until)
select r.id, n, 'r' || n, 'running', 1, '00000000-0000-0000-0000-000000000001', gen_random_uuid(), clock_timestamp() + interval '1 h'
from run r, generate_series(0, 4) n where r.state = 'running';
insert into attempt (task_id, number, token, worker) select id, 1, token, owner from task where state = 'running';
insert into task (run_id, task_no, task_id, state)
select r.id, n, 'q' || n, 'queued' from run r, generate_series(100, 1099) n where r.state = 'running';
insert into task (run_id, task_no, task_id, state, retry_at)
select r.id, n, 'u' || n, 'up_for_retry', clock_timestamp() + interval '1 h' from run r, generate_series(2000, 2099) n
where r.state = 'running';
insert into task (run_id, task_no, task_id, state, settled)
select r.id, 3000, 'e', 'success', false from run r where r.state = 'running' order by r.id limit 3;

-- 3000 watchers of thirty owners, all owned but five
insert into watcher (mode, classpath, kwargs, definition, active, owner, term)
select 'single', 'c', '{}', 'd' || n, true, lpad((1 + n % 30)::text, 32, '0')::uuid, 1 from generate_series(1, 3000) n;
insert into watch (asset_id, name, watcher_id) select id, 'w', id from watcher;
update process set ready_until = clock_timestamp() + interval '1 h' where state = 'running';
update watcher set owner = null where id % 600 = 0;
