-- The storm breaker of consumers: what held events a person gives back, and how.

-- Ends the storm of a consumer, under its lock: what was held by it or as a loop is given back, to be judged each as ever or
-- (p_how 'join') as one run, or is discarded; or (p_how 'slowly') p_rate events a minute are, in the order in which they came,
-- and the storm ends with the last. Returns how many deliveries that concerns; no row when there is no such DAG.
create function release_storm(
  p_dag_id text, p_how text, p_rate double precision, p_by text, p_reason text, p_now timestamptz default null
) returns table (active boolean, paused boolean, storm boolean, deliveries bigint) language plpgsql as $$
declare target dag%rowtype; now_ timestamptz; made bigint; total bigint; held constant text[] := array['storm', 'loop'];
begin
  select * into target from dag d where d.dag_id = p_dag_id for no key update;
  if not found then
    return;
  end if;
  now_ := coalesce(p_now, clock_timestamp());
  if p_how = 'slowly' then
    total := (select count(*) from delivery y
              where y.dag_id = target.id and y.judged and y.disposition = 'held' and y.reason = any (held));
    insert into intervention (dag_id, kind, pending, by, reason, details, made_at, deliveries)
    values (target.id, 'release', p_how, p_by::json, p_reason, json_build_object('rate', p_rate), now_, total) returning id into made;
    if total > 0 then
      update dag d
      set release_id = made, release_rate = p_rate, release_at = now_, storm = coalesce(d.storm, '{}'),
          storm_at = coalesce(d.storm_at, now_)
      where d.id = target.id;
    end if;
  else
    select s.intervention, s.deliveries into made, total
    from settle_by_hand(target.id, 'release', p_how, null, null, held, p_by, p_reason, '{}', now_) s;
  end if;
  if p_how <> 'slowly' or total = 0 then
    perform end_storm(target.id, made);
  end if;
  return query select target.active, target.paused, target.storm is not null, total;
end $$;

-- The consumer is as if there had been no storm; it is locked by the caller.
create function end_storm(p_dag bigint, p_intervention bigint) returns void language sql as $$
  update dag d
  set storm = null, storm_at = null, release_id = p_intervention, release_rate = null, release_at = null, minute_at = null, minute_runs = 0
  where d.id = p_dag
$$;

-- Releases the next events of a consumer whose storm a person ends slowly, of each second's worth at once; the storm ends
-- when there is no more. Returns how many it released and when the next may go, null if somebody else has the consumer, or
-- there is nothing to do.
create function release_slowly(p_dag bigint, p_now timestamptz default null)
returns table (released bigint, seconds double precision) language plpgsql as $$
declare target dag%rowtype; now_ timestamptz; chosen bigint[]; size int; wait double precision;
begin
  select * into target from dag d where d.id = p_dag for no key update skip locked;
  now_ := coalesce(p_now, clock_timestamp());
  if not found or target.release_at is null or target.release_at > now_ or target.paused or not target.active then
    return;
  end if;
  size := greatest(1, round(target.release_rate / 60));
  wait := size * 60 / target.release_rate;
  chosen := array(
    select x.event_id from (select distinct s.asset_id from subscription s where s.dag_id = p_dag) s
    cross join lateral (
      select y.event_id from delivery y
      where y.dag_id = p_dag and y.judged and y.disposition = 'held' and y.asset_id = s.asset_id and y.reason in ('storm', 'loop')
      order by y.event_id limit size
    ) x order by x.event_id limit size);
  update delivery y set disposition = 'pending', judged = false, reason = null, intervention_id = target.release_id
  where y.dag_id = p_dag and y.event_id = any (chosen);
  if cardinality(chosen) < size then
    perform end_storm(p_dag, target.release_id);
  else
    update dag d set release_at = now_ + make_interval(secs => wait) where d.id = p_dag;
  end if;
  return query select cardinality(chosen)::bigint, wait;
end $$;
