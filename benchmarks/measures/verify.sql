-- A history that keeps the promise: $1 events of one asset, the hashes of whose keys are $2, each with a finished run of one
-- task that ran once.
with file as (insert into dag_file (path, parsed_at) values ('f.py', clock_timestamp()) returning id),
     consumer as (
       insert into dag (dag_id, file_id, paused, schedule_kind, max_active_runs, ordinal)
       select 'consumer', id, false, 'asset:each', 16, $1 from file returning id),
     version as (insert into dag_version (dag_id, number, spec_hash, spec) select id, 1, 'x', '{"tasks": [{}]}' from consumer returning id, dag_id),
     asset as (insert into asset (name, uri, seq, subscribers) select 'orders', '', $1, array[id] from consumer returning id),
     subscribed as (insert into subscription (asset_id, dag_id, from_seq) select a.id, c.id, 1 from asset a, consumer c),
     event as (
       insert into event (asset_id, seq, key, extra, source, sighting, hash)
       select a.id, n, n::text, '{}', '{}', gen_random_uuid(), hash from asset a, unnest($2::uuid[]) with ordinality as u (hash, n)
       returning id, asset_id, hash),
     identity as (insert into change_key (asset_id, hash, event_id) select asset_id, hash, id from event),
     decision as (
       insert into decision (dag_id, version_id, process_id, explanation)
       select dag_id, id, gen_random_uuid(), '{}' from version, generate_series(1, $1 / 100 + 1) returning id),
     delivery as (insert into delivery (event_id, dag_id, asset_id) select e.id, c.id, e.asset_id from event e, consumer c)
select count(*) from decision
