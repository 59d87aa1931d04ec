-- What the promise costs is measured against this: the same path without identity, order, ledger and their constraints.
-- Events are stored and handed to consumers as they come, whoever told them before; nothing says why a run was made.
create or replace function record_events(
  p_asset bigint[], p_sighting uuid[], p_hash uuid[], p_key text[], p_extra text[], p_source text[],
  p_flaw text[] default null, p_keyless boolean[] default null, p_now timestamptz default null
) returns table (n int, event_id bigint, status text) language plpgsql as $$
begin
  return query
  with stored as (
    insert into event as e (asset_id, seq, key, extra, source, sighting, hash)
    select u.asset, 0, u.key, u.extra::json, u.source::json, u.sighting, u.hash
    from unnest(p_asset, p_key, p_extra, p_source, p_sighting, p_hash) as u (asset, key, extra, source, sighting, hash)
    returning e.id, e.asset_id
  ), handed_over as (
    insert into delivery (event_id, dag_id, asset_id)
    select s.id, d, s.asset_id from stored s join asset a on a.id = s.asset_id, unnest(a.subscribers) as d
  )
  select (row_number() over ())::int, s.id, 'stored' from stored s;
end $$;
alter table event drop constraint event_asset_id_seq_key;
drop trigger disposition_set_once on delivery;
alter table run drop constraint run_start_event_dag_id_fkey;
drop trigger run_exists on delivery;
drop trigger run_exists_at_first on delivery;
drop trigger has_no_deliveries on run;
drop index run_start_event;
drop index delivery_starter;

create or replace function create_asset_runs(
  p_process uuid, p_decision_dag bigint[], p_decision_version bigint[], p_explanation text[],
  p_run_dag bigint[], p_run_decision int[], p_run_start bigint[], p_run_waiting bigint[],
  p_member_run int[], p_member_event bigint[], p_run_counted boolean[], p_now timestamptz default null
) returns setof bigint language plpgsql as $$
declare now_ timestamptz := clock_timestamp(); new_run bigint[];
begin
  new_run := array(select nextval('run_id_seq') from generate_subscripts(p_run_dag, 1));
  with counted as (
    select u.dag, count(*) as runs from unnest(p_run_dag) as u (dag) group by u.dag
  ), advanced as (
    update dag d set ordinal = d.ordinal + c.runs from counted c where d.id = c.dag returning d.id, d.ordinal - c.runs as base
  )
  insert into run (id, dag_id, run_id, run_type, ordinal, start_event, created_by, created_at) overriding system value
  select u.id, u.dag, make_run_id('asset_triggered', now_, u.id), 'asset_triggered',
         a.base + row_number() over (partition by u.dag order by u.n), u.start, '{}', now_
  from unnest(new_run, p_run_dag, p_run_start) with ordinality as u (id, dag, start, n) join advanced a on a.id = u.dag order by u.n;
  update delivery y set disposition = 'started', run_id = new_run[m.run], judged = true, decided_at = now_
  from unnest(p_member_run, p_member_event) as m (run, event) where y.event_id = m.event and y.dag_id = p_run_dag[m.run];
  return query select unnest(new_run);
end $$;
