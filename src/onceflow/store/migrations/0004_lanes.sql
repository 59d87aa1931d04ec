-- The lanes of people: runs that are made again, of the same events or of chosen ones, beside the deliveries and without
-- touching any.

-- Creates p_runs runs of a DAG in a lane of their own, with the record of who wanted them and why. p_member_* are their
-- events (p_member_run = number of the run). A rerun (p_of_run) takes configuration and logical date from the run it
-- repeats; a replay has an explanation of how its events became runs. p_request again is answered with the runs that it made.
-- Returns no row when there is no such active DAG.
create function create_lane_runs(
  p_dag bigint, p_lane run_type, p_runs int, p_of_run bigint, p_member_run int[], p_member_event bigint[],
  p_downstream text, p_by text, p_reason text, p_details text, p_explanation text, p_request uuid default null,
  p_now timestamptz default null
) returns table (id bigint, run_id text, paused boolean) language plpgsql as $$
declare
  now_ timestamptz; target dag%rowtype; original run%rowtype; made bigint; decided bigint;
  new_run bigint[] := array(select nextval('run_id_seq') from generate_series(1, p_runs));
begin
  select d.* into target from dag d where d.id = p_dag and d.active for no key update;
  if not found then
    return;
  end if;
  select i.id into made from intervention i where i.request = p_request;
  if found then
    return query select r.id, r.run_id, target.paused from run r where r.dag_id = p_dag and r.intervention_id = made order by r.id;
    return;
  end if;
  update dag d set ordinal = d.ordinal + p_runs where d.id = p_dag returning d.* into target;
  now_ := coalesce(p_now, clock_timestamp());
  select r.* into original from run r where r.id = p_of_run;
  insert into intervention (dag_id, kind, by, reason, details, request, made_at, deliveries)
  values (p_dag, p_lane::text, p_by::json, p_reason, p_details::json, p_request, now_, cardinality(p_member_event))
  returning intervention.id into made;
  if p_explanation is not null then
    insert into decision (dag_id, version_id, decided_at, explanation)
    values (p_dag, target.version_id, now_, p_explanation::json) returning decision.id into decided;
  end if;
  insert into run (id, dag_id, run_id, run_type, ordinal, logical_date, conf, decision_id, created_by, intervention_id,
                   of_run, downstream, created_at)
  overriding system value
  select u.id, p_dag, make_run_id(p_lane, now_, u.id), p_lane, target.ordinal - p_runs + u.n, original.logical_date,
         original.conf, decided, p_by::json, made, original.id, p_downstream, now_
  from unnest(new_run) with ordinality as u (id, n) order by u.n;
  insert into run_member (run_id, event_id)
  select new_run[m.run], m.event from unnest(p_member_run, p_member_event) as m (run, event);
  return query select r.id, r.run_id, target.paused from run r where r.id = any (new_run) order by r.id;
end $$;

-- Runs a run again, with exactly its events. One that has lost some when they were old is not run again: `gone` says how many, and
-- `left_` which it has. Returns no row when there is no such run, or no such active DAG.
create function rerun(
  p_dag_id text, p_run_id text, p_downstream text, p_by text, p_reason text, p_request uuid default null,
  p_now timestamptz default null
) returns table (id bigint, run_id text, paused boolean, gone int, left_ bigint[]) language plpgsql as $$
declare original run%rowtype; members bigint[];
begin
  perform 1 from dag d where d.dag_id = p_dag_id for no key update;
  select r.* into original from run r join dag d on d.id = r.dag_id where d.dag_id = p_dag_id and r.run_id = p_run_id
  for no key update of r;
  if not found then
    return;
  end if;
  members := array(
    select y.event_id from delivery y where y.run_id = original.id
    union all select m.event_id from run_member m where m.run_id = original.id order by 1);
  if original.pruned_events > 0 then
    return query select null::bigint, null::text, null::boolean, original.pruned_events, members;
    return;
  end if;
  return query
  select c.*, 0, members from create_lane_runs(
    original.dag_id, 'rerun', 1, original.id, array_fill(1, array[cardinality(members)]), members, p_downstream, p_by,
    p_reason, json_build_object('run_id', original.run_id)::text, null, p_request, p_now) c;
end $$;

-- Notes where the events of tasks came from, in the transaction that stored them. p_event and p_task are parallel; an event is
-- null where it was known already. What a consumer got too often by way of its own runs is held as a 'loop' (max_rounds
-- of them; 0 = never); what a run makes whose downstream is to be held, by its lane's name.
create function trace_outlets(p_event bigint[], p_task bigint[]) returns void language plpgsql as $$
declare looping bigint[]; dags bigint[]; held bigint[]; lane text[];
begin
  with made as materialized (
    select u.event, (select t.run_id from task t where t.id = u.task) as run
    from unnest(p_event, p_task) as u (event, task) where u.event is not null
  ), traced as materialized (
    select x.run, r.dag_id, (
      select jsonb_object_agg(k.dag, k.n) from (
        select p.key as dag, max(p.value::int) as n
        from (select y.event_id from delivery y where y.run_id = x.run
              union all select m.event_id from run_member m where m.run_id = x.run) m
        cross join lateral (select c.rounds from cause c where c.event_id = m.event_id limit 1) c
        cross join lateral jsonb_each(c.rounds) p
        group by 1) k
    ) as rounds
    from (select distinct made.run from made) x cross join lateral (select o.dag_id from run o where o.id = x.run limit 1) r
  )
  insert into cause (event_id, run_id, rounds)
  select m.event, m.run, coalesce(t.rounds, '{}') || jsonb_build_object(
    t.dag_id::text, coalesce((t.rounds ->> t.dag_id::text)::int, 0) + 1)
  from made m join traced t on t.run = m.run;

  -- Only DAGs that are among the causes can be in a loop: looked up one by one, whoever else gets the event.
  select array_agg(u.event), array_agg(d.id)
  from unnest(p_event) as u (event)
  cross join lateral (select c.rounds from cause c where c.event_id = u.event limit 1) c
  cross join lateral jsonb_each_text(c.rounds) k (dag, n)
  cross join lateral (select o.id, o.max_rounds from dag o where o.id = k.dag::bigint limit 1) d
  where k.n::int >= nullif(d.max_rounds, 0)
  into looping, dags;
  if looping is not null then
    update delivery y set disposition = 'held', judged = true, reason = 'loop'
    from unnest(looping, dags) as u (event, dag) where y.event_id = u.event and y.dag_id = u.dag and y.disposition = 'pending';
  end if;

  select array_agg(u.event), array_agg(r.run_type::text)
  from unnest(p_event, p_task) as u (event, task)
  cross join lateral (select t.run_id from task t where t.id = u.task limit 1) t
  cross join lateral (select o.run_type, o.downstream from run o where o.id = t.run_id limit 1) r
  where u.event is not null and r.downstream = 'hold'
  into held, lane;
  if held is not null then
    update delivery y set disposition = 'held', judged = true, reason = u.lane
    from unnest(held, lane) as u (event, lane) where y.event_id = u.event and y.disposition = 'pending';
  end if;
end $$;

-- What a person does to deliveries that are open, under the consumer's lock, with the record of who and why: p_kind 'discard'
-- ends those that are pending or held; 'release' gives held ones back to be judged, each as ever or (p_pending 'join') as one
-- run. Of which: p_events and p_asset (null = any), and if given only those held for one of p_reasons; what is held for the
-- state of the DAG itself (paused, removed, unscheduled) or of the event (quarantined) cannot be released. Returns no row when there is no such DAG.
create function settle_by_hand(
  p_dag bigint, p_kind text, p_pending text, p_events bigint[], p_asset bigint, p_reasons text[], p_by text, p_reason text,
  p_details text, p_now timestamptz default null
) returns table (intervention bigint, deliveries bigint) language plpgsql as $$
declare now_ timestamptz; made bigint; total bigint := 0; changed bigint; ending boolean := p_kind = 'discard' or p_pending = 'discard';
begin
  perform 1 from dag d where d.id = p_dag for no key update;
  if not found then
    return;
  end if;
  now_ := coalesce(p_now, clock_timestamp());
  insert into intervention (dag_id, kind, pending, by, reason, details, made_at)
  values (p_dag, p_kind, p_pending, p_by::json, p_reason, p_details::json, now_) returning id into made;
  if p_kind = 'discard' then
    update delivery y
    set disposition = 'discarded', judged = true, reason = 'discarded by hand', intervention_id = made, decided_at = now_
    where y.dag_id = p_dag and y.disposition = 'pending' and not y.judged
      and (p_events is null or y.event_id = any (p_events)) and (p_asset is null or y.asset_id = p_asset)
      and p_reasons is null;
    get diagnostics total = row_count;
  end if;
  update delivery y
  set disposition = case when ending then 'discarded' else 'pending' end::disposition, judged = ending, intervention_id = made,
      reason = case when ending then 'discarded by hand' end, decided_at = case when ending then now_ end
  where y.dag_id = p_dag and y.judged and y.disposition in ('pending', 'held')
    and (p_events is null or y.event_id = any (p_events)) and (p_asset is null or y.asset_id = p_asset)
    and case when y.disposition = 'pending' then p_kind = 'discard' and p_reasons is null
             when p_reasons is not null then y.reason = any (p_reasons)
             else p_kind = 'discard' or y.reason not in ('pause', 'inactive', 'unscheduled', 'quarantine') end;
  get diagnostics changed = row_count;
  total := total + changed;
  update intervention i set deliveries = total where i.id = made;
  if p_pending = 'join' and total > 0 then
    update dag d set join_id = made where d.id = p_dag;
  end if;
  return query select made, total;
end $$;
