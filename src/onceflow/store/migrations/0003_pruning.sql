-- What is old goes, in steps that are bounded whatever there is. An event goes with its deliveries and witnesses; a run goes
-- with the event that started it, and takes its tasks, attempts and values along; the events that joined it are kept for
-- their own time, with a delivery that says 'pruned'. A decision goes with its last run. What an event was identified by
-- stays as long as its asset's rules say.

create table expiring_key (
  asset_id bigint not null references asset,
  hash uuid not null,
  expires_at timestamptz not null,
  primary key (asset_id, hash)
);
comment on table expiring_key is 'identities of pruned events that are kept for a while only; all others are kept for ever';
create index expiring_key_at on expiring_key (expires_at);

create table high_water (
  asset_id bigint not null references asset,
  source text not null,
  epoch text not null,
  mark numeric not null,
  primary key (asset_id, source, epoch)
);
comment on table high_water is 'the highest message id of pruned events, in place of their identities: what is not above it is known';

-- How long the identity of an asset's changes is kept at least; null = for ever.
create function protection(p_rules jsonb) returns interval language sql immutable as $$
  select make_interval(secs => case when jsonb_typeof(p_rules -> 'protection') = 'number'
                                    then (p_rules ->> 'protection')::double precision end)
$$;

-- Prunes events of an asset that were created before p_before, in the order of their seq: those of which nothing is open,
-- and whose runs ended before then, and no rerun or replay is stored. Looks at p_limit events with a seq above p_after at
-- most; returns the last seq that it looked at, null if there is nothing more to look at, and how many events it pruned.
create function prune_events(p_asset bigint, p_after bigint, p_before timestamptz, p_limit int)
returns table (reached bigint, pruned int) language plpgsql as $$
declare
  seen bigint[]; going bigint[]; runs bigint[]; decisions bigint[]; kept interval; last bigint; old int;
  other_event bigint[]; other_dag bigint[]; other_run bigint[]; locked bigint; lost bigint[];
begin
  -- The asset first, as for who records: no witness comes to an event that is about to go.
  perform 1 from asset a where a.id = p_asset for no key update;
  select array_agg(x.id) filter (where x.created_at < p_before), max(x.seq), count(*) filter (where x.created_at < p_before)
  from (select e.id, e.seq, e.created_at from event e where e.asset_id = p_asset and e.seq > p_after order by e.seq limit p_limit) x
  into seen, last, old;
  going := array(
    select u.id from unnest(seen) as u (id)
    where not exists (select 1 from run_member m where m.event_id = u.id) and not exists (
      select 1 from delivery y left join run r on r.id = y.run_id
      where y.event_id = u.id
        and (y.decided_at is null or (y.run_id is not null and coalesce(r.finished_at >= p_before, true))))
      and not exists (select 1 from quarantine q where q.event_id = u.id and q.released_at is null
                      and not exists (select 1 from delivery y where y.event_id = u.id)));
  -- (Compared as text, so that nobody reads the index of all deliveries that started something.)
  runs := array(select y.run_id from delivery y where y.event_id = any (going) and y.disposition::text = 'started' order by 1);
  if runs <> '{}' then
    -- Other events of these runs let go of them, so many at a time; a run that still has one stays, and so does its start.
    select array_agg(m.event_id), array_agg(m.dag_id), array_agg(m.run_id)
    from (select y.event_id, y.dag_id, y.run_id from delivery y
          where y.run_id = any (runs) and y.event_id <> all (going) limit 5 * p_limit) m
    into other_event, other_dag, other_run;
    with touched as materialized (
      select u.event, u.dag from unnest(other_event, other_dag) as u (event, dag)
      union all select y.event_id, y.dag_id from delivery y where y.event_id = any (going)
    )
    select count(l.one) from (
      select 1 as one from touched t join delivery y on y.event_id = t.event and y.dag_id = t.dag
      order by y.event_id, y.dag_id for no key update of y
    ) l into locked;
    update delivery y set run_id = null, reason = 'pruned'
    from unnest(other_event, other_dag) as u (event, dag) where y.event_id = u.event and y.dag_id = u.dag;
    going := array(
      select u.id from unnest(going) as u (id)
      where not exists (
        select 1 from delivery y join delivery m on m.run_id = y.run_id and m.event_id <> all (going)
        where y.event_id = u.id and y.disposition::text = 'started'));
    runs := array(select y.run_id from delivery y where y.event_id = any (going) and y.disposition::text = 'started' order by 1);
  end if;
  -- A run that stays says how many of its events it has lost.
  lost := array(
    select l.run from (
      select unnest(other_run) as run
      union all select y.run_id from delivery y where y.event_id = any (going) and y.run_id is not null
    ) l where l.run <> all (runs));
  perform 1 from run r where r.id = any (runs || lost) order by r.id for no key update;
  update run r set pruned_events = r.pruned_events + x.events
  from (select u.run, count(*) as events from unnest(lost) as u (run) group by 1) x where r.id = x.run;
  if runs <> '{}' then
    decisions := array(select distinct r.decision_id from run r where r.id = any (runs) and r.decision_id is not null);
    -- A joined event that goes together with the start of its run, while the start of another of its runs stays.
    update delivery y set run_id = null, reason = 'pruned'
    where y.run_id = any (runs) and y.event_id <> all (going);
  end if;
  if going <> '{}' then
    kept := (select protection(a.rules) from asset a where a.id = p_asset);
    if kept is not null then
      insert into expiring_key (asset_id, hash, expires_at)
      select p_asset, e.hash, e.created_at + kept from event e where e.id = any (going)
      union select p_asset, q.stand_in, e.created_at + kept from event e join quarantine q on q.event_id = e.id
      where e.id = any (going) and q.stand_in is not null
      on conflict do nothing;
    end if;
    if (select a.rules ->> 'protection' = 'high-water' from asset a where a.id = p_asset) then
      insert into high_water as h (asset_id, source, epoch, mark)
      select p_asset, e.source -> 'message' ->> 'source', coalesce(e.source -> 'message' ->> 'epoch', ''),
             max(case when json_typeof(e.source -> 'message' -> 'id') = 'number' then (e.source -> 'message' ->> 'id')::numeric end)
      from event e where e.id = any (going) and e.key is null and json_typeof(e.source -> 'message' -> 'id') = 'number'
      group by 2, 3
      on conflict (asset_id, source, epoch) do update set mark = greatest(h.mark, excluded.mark);
      with gone as (
        delete from change_key c using event e
        where e.id = any (going) and e.key is null and json_typeof(e.source -> 'message' -> 'id') = 'number'
          and c.asset_id = p_asset and c.hash = e.hash returning 1
      )
      update asset a set forgotten = a.forgotten + (select count(*) from gone), marked = true where a.id = p_asset;
    end if;
    -- Deliveries and runs refer to each other: all in one statement, at whose end it is checked.
    with deliveries as (
      delete from delivery y where y.event_id = any (going)
    ), started as (
      delete from run r where r.id = any (runs)
    )
    delete from event e where e.id = any (going);
    delete from decision d where d.id = any (decisions) and not exists (select 1 from run r where r.decision_id = d.id);
    update asset a set pruned = a.pruned + cardinality(going) where a.id = p_asset;
  end if;
  return query select case when old = p_limit then last end, coalesce(cardinality(going), 0);
end $$;

-- Forgets identities whose time is over, p_limit at most; those of assets that keep them for ever by now stay. Returns how
-- many there were.
create function prune_keys(p_limit int, p_now timestamptz default null) returns int language plpgsql as $$
declare assets bigint[]; hashes uuid[]; found int;
begin
  select array_agg(x.asset_id), array_agg(x.hash), count(*)
  from (select k.asset_id, k.hash from expiring_key k where k.expires_at <= (select coalesce(p_now, clock_timestamp()))
        order by k.expires_at limit p_limit) x
  into assets, hashes, found;
  if found = 0 then
    return 0;
  end if;
  perform 1 from asset a where a.id = any (assets) order by a.id for no key update;
  with due as (
    delete from expiring_key k using unnest(assets, hashes) as u (asset, hash) where k.asset_id = u.asset and k.hash = u.hash
    returning k.asset_id, k.hash
  ), gone as (
    delete from change_key c using due d join asset a on a.id = d.asset_id
    where c.asset_id = d.asset_id and c.hash = d.hash and protection(a.rules) is not null returning c.asset_id
  )
  update asset a set forgotten = a.forgotten + g.keys
  from (select gone.asset_id, count(*) as keys from gone group by 1) g where a.id = g.asset_id;
  return found;
end $$;

-- Prunes runs that no event started and that ended before p_before, p_limit at most. The slot of a timed run stays taken.
create function prune_runs(p_before timestamptz, p_limit int) returns int language plpgsql as $$
declare old bigint[]; found int;
begin
  old := array(select r.id from run r where r.start_event is null and r.finished_at < p_before order by r.finished_at limit p_limit);
  perform 1 from dag d where d.id in (select r.dag_id from run r where r.id = any (old)) order by d.id for no key update;
  with gone as (
    delete from run r where r.id = any (old) returning r.dag_id, r.logical_date
  ), slots as (
    update dag d set pruned_slot = greatest(d.pruned_slot, g.slot)
    from (select gone.dag_id, max(gone.logical_date) as slot from gone group by 1) g where d.id = g.dag_id
  )
  select count(*) from gone into found;
  return found;
end $$;

-- Prunes watchers that no file has declared since before p_before, p_limit at most, with their cursors and what people did to
-- them. Who registers one again has its row first, or finds it gone, and it is a new one. Returns how many there were.
create function prune_watchers(p_before timestamptz, p_limit int) returns int language plpgsql as $$
declare old bigint[];
begin
  old := array(
    select w.id from watcher w
    where not w.active and w.active_since < p_before and w.owner is null
      and not exists (select 1 from watch x where x.watcher_id = w.id and x.active)
    order by w.id limit p_limit for no key update skip locked);
  delete from watch x where x.watcher_id = any (old);
  delete from intervention i where i.watcher_id = any (old);
  delete from watcher w where w.id = any (old);
  return cardinality(old);
end $$;
