-- Functions where one round trip must do several statements in order. All are VOLATILE, so that each statement inside
-- takes a fresh snapshot: what is read after a lock was waited for is what the lock protects. `p_now` is null in
-- production (the database's clock then).

create function base32(n bigint) returns text language plpgsql immutable as $$
declare alphabet constant text := '0123456789abcdefghjkmnpqrstvwxyz'; rest bigint := n; result text := '';
begin
  loop
    result := substr(alphabet, (rest % 32)::int + 1, 1) || result;
    rest := rest / 32;
    exit when rest = 0;
  end loop;
  return result;
end $$;

create function make_run_id(p_type run_type, p_at timestamptz, p_id bigint) returns text language sql stable as $$
  select p_type || '__' || to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"') || '_' || base32(p_id)
$$;

-- How long a watcher that failed so often is left alone: 1, 2, 4, ... 256 s.
create function back_off(p_strikes int) returns interval language sql immutable as $$
  select make_interval(secs => power(2, least(p_strikes, 8)))
$$;

-- Whether what a watcher did well since it was claimed makes up for its strikes: it has to outlive its last back-off, so
-- that one that works for a moment and fails again is left alone longer and longer.
create function forgiven(p_claimed_at timestamptz, p_strikes int) returns boolean language sql volatile as $$
  select p_strikes = 0 or p_claimed_at + back_off(p_strikes) < clock_timestamp()
$$;

-- Whether two JSON texts are one value, whatever the order of names in objects. jsonb refuses a few texts that json takes,
-- such as \u0000: those are the same only if they are so to the letter.
create function same_json(p_one text, p_other text) returns boolean language plpgsql immutable as $$
begin
  return p_one = p_other or p_one::jsonb = p_other::jsonb;
exception when data_exception then
  return false;
end $$;

-- Lets a quarantined event go on: with another payload, or as it is (p_extra null). The caller has locked its asset, as who
-- records. Returns the event, null if it is not quarantined (any more).
create function release_event(p_event bigint, p_extra text, p_by text, p_reason text, p_now timestamptz) returns bigint
language plpgsql as $$
begin
  update quarantine q set released_at = p_now, released_by = p_by::json, reason = p_reason
  where q.event_id = p_event and q.released_at is null;
  if not found then
    return null;
  end if;
  if p_extra is not null then
    update event e set extra = p_extra::json where e.id = p_event;
  end if;
  update delivery y set disposition = 'pending', judged = false, reason = null
  where y.event_id = p_event and y.disposition = 'held' and y.reason = 'quarantine';
  return p_event;
end $$;

-- Gives a quarantined event without a key its key, and lets it go on like release_event. If that key is another event's, both are
-- one change: this one is discarded with a reason that names the other, and lets that go on with its payload if that is
-- quarantined and p_sound. Returns the event that the change is now, null if p_event is not quarantined without a key (any
-- more). The caller has locked its asset.
create function name_event(
  p_event bigint, p_hash uuid, p_key text, p_extra text, p_sound boolean, p_by text, p_reason text, p_now timestamptz
) returns bigint language plpgsql as $$
declare asset_ bigint; winner bigint;
begin
  select e.asset_id into asset_ from event e join quarantine q on q.event_id = e.id
  where e.id = p_event and q.stand_in = e.hash and q.released_at is null;
  if not found then
    return null;
  end if;
  insert into change_key (asset_id, hash, event_id) values (asset_, p_hash, p_event) on conflict do nothing;
  select c.event_id into winner from change_key c where c.asset_id = asset_ and c.hash = p_hash;
  if winner = p_event then
    update event e set key = p_key, hash = p_hash where e.id = p_event;
    update asset a set mended = a.mended + 1 where a.id = asset_;
    return release_event(p_event, p_extra, p_by, p_reason, p_now);
  end if;
  update quarantine q set released_at = p_now, released_by = p_by::json, reason = p_reason, same_as = winner where q.event_id = p_event;
  update event e set extra = coalesce(p_extra::json, e.extra) where e.id = p_event returning e.extra::text into p_extra;
  update delivery y set disposition = 'discarded', reason = same_change(winner), decided_at = p_now
  where y.event_id = p_event and y.disposition = 'held' and y.reason = 'quarantine';
  if p_sound then
    perform release_event(winner, p_extra, p_by, p_reason, p_now);
  end if;
  return winner;
end $$;

-- Why a delivery of an event that turned out to be the change of another one is discarded.
create function same_change(p_event bigint) returns text language sql immutable as $$
  select 'the same change as event ' || p_event
$$;

-- Which of these changes, by their number, are of events that were pruned and are known by a high-water mark.
create function passed_high_water(p_asset bigint[], p_hash uuid[], p_source text[]) returns bigint[] language plpgsql as $$
begin
  return array(
    select u.n from unnest(p_asset, p_hash, p_source) with ordinality as u (asset, hash, source, n)
    join high_water h on h.asset_id = u.asset and h.source = u.source::json -> 'message' ->> 'source'
      and h.epoch = coalesce(u.source::json -> 'message' ->> 'epoch', '')
    where case when json_typeof(u.source::json -> 'message' -> 'id') = 'number'
               then (u.source::json -> 'message' ->> 'id')::numeric <= h.mark else false end
      and not exists (select 1 from change_key c where c.asset_id = u.asset and c.hash = u.hash));
end $$;

-- Records changes in one transaction: identity, event, one pending delivery per subscriber.
-- The arrays are parallel, one element per change. Returns one row per change, in the order given:
--   status 'stored' (a new event), 'duplicate' (a witness of event_id), 'repeated' (this sighting was recorded before),
--   'released' (a witness whose payload takes the place of a quarantined one).
-- event_id is 0 for a duplicate that only a high-water mark knows.
-- p_flaw: what is wrong with a payload, null where nothing is; null altogether if nothing is with any. The event is
-- stored in its place all the same, and its deliveries are held. p_keyless: whether what is wrong is that it gives no key,
-- so that the hash is its payload's.
create function record_events(
  p_asset bigint[], p_sighting uuid[], p_hash uuid[], p_key text[], p_extra text[], p_source text[],
  p_flaw text[] default null, p_keyless boolean[] default null, p_now timestamptz default null
) returns table (n int, event_id bigint, status text) language plpgsql as $$
declare now_ timestamptz; new_id bigint[]; winner bigint[]; released bigint[] := '{}'; marked boolean; passed bigint[] := '{}';
begin
  if cardinality(p_asset) = 0 then
    return;
  end if;

  select bool_or(l.marked) from (
    select a.marked from asset a where a.id = any (p_asset) order by a.id for no key update) l into marked;
  if marked then
    passed := passed_high_water(p_asset, p_hash, p_source);
  end if;
  now_ := coalesce(p_now, clock_timestamp());
  new_id := array(select nextval('event_id_seq') from generate_subscripts(p_asset, 1));
  insert into change_key as c (asset_id, hash, event_id)
  select u.asset, u.hash, u.new_id from unnest(p_asset, p_hash, new_id) with ordinality as u (asset, hash, new_id, n)
  where u.n <> all (passed) order by u.n on conflict do nothing;
  -- A loser finds the winner in a statement of its own; one that a high-water mark knows has none any more.
  winner := array(
    select c.event_id from unnest(p_asset, p_hash) with ordinality as u (asset, hash, n)
    left join change_key c on c.asset_id = u.asset and c.hash = u.hash order by u.n);

  with won as (
    select u.n, u.asset, u.new_id, row_number() over (partition by u.asset order by u.n) as rank
    from unnest(p_asset, new_id, winner) with ordinality as u (asset, new_id, winner, n) where u.new_id = u.winner
  ), advanced as (
    update asset a set seq = a.seq + w.stored from (select won.asset, count(*) as stored from won group by won.asset) w
    where a.id = w.asset returning a.id, a.seq - w.stored as base, a.subscribers
  ), stored as (
    insert into event as e (id, asset_id, seq, key, extra, source, sighting, hash, created_at) overriding system value
    select w.new_id, w.asset, a.base + w.rank, p_key[w.n], p_extra[w.n]::json, p_source[w.n]::json, p_sighting[w.n],
           p_hash[w.n], now_
    from won w join advanced a on a.id = w.asset order by w.n
    returning e.id, e.asset_id
  )
  insert into delivery (event_id, dag_id, asset_id)
  select s.id, d, s.asset_id from stored s join advanced a on a.id = s.asset_id, unnest(a.subscribers) as d;

  if p_flaw is not null then
    with bad as (
      insert into quarantine as q (event_id, flaw, extra, stand_in, held_at)
      select u.new_id, u.flaw, u.extra::json, case when u.keyless then u.hash end, now_
      from unnest(new_id, winner, p_flaw, p_extra, p_keyless, p_hash) as u (new_id, winner, flaw, extra, keyless, hash)
      where u.new_id = u.winner and u.flaw is not null returning q.event_id
    )
    update delivery y set disposition = 'held', judged = true, reason = 'quarantine' from bad b where y.event_id = b.event_id;
  end if;

  if new_id = winner then -- all are new, as they mostly are
    return query select u.n::int, u.id, 'stored' from unnest(new_id) with ordinality as u (id, n) order by u.n;
    return;
  end if;

  insert into witness (sighting, event_id, source, differs, seen_at)
  select distinct on (p_sighting[u.n]) p_sighting[u.n], e.id, p_source[u.n]::json, not same_json(e.extra::text, p_extra[u.n]), now_
  from unnest(new_id, winner) with ordinality as u (new_id, winner, n) join event e on e.id = u.winner
  where u.new_id <> u.winner and e.sighting <> p_sighting[u.n]
    and (select count(*) from (select 1 from witness w where w.event_id = e.id limit 1000) seen) < 1000
  order by p_sighting[u.n], u.n on conflict do nothing;
  select coalesce(array_agg(release_event(m.event, m.extra, m.source, null, now_)), '{}')
  from (select distinct on (u.winner) u.winner as event, p_extra[u.n] as extra, p_source[u.n] as source
        from unnest(new_id, winner) with ordinality as u (new_id, winner, n)
        join quarantine q on q.event_id = u.winner and q.released_at is null
        join event e on e.id = u.winner
        where u.new_id <> u.winner and e.sighting <> p_sighting[u.n] and (p_flaw is null or p_flaw[u.n] is null)
        order by u.winner, u.n) m
  into released;
  return query
  select u.n::int, coalesce(u.winner, 0), case when u.new_id = u.winner then 'stored' when e.sighting = p_sighting[u.n] then 'repeated'
                                  when u.winner = any (released) and (p_flaw is null or p_flaw[u.n] is null) then 'released'
                                  else 'duplicate' end
  from unnest(new_id, winner) with ordinality as u (new_id, winner, n) left join event e on e.id = u.winner order by u.n;
end $$;

-- How many of some changes have a flaw, and what the last one's is.
create function flaws(p_flaw text[]) returns int language sql immutable as $$
  select coalesce(cardinality(array_remove(p_flaw, null)), 0)
$$;
create function last_flaw(p_flaw text[]) returns text language sql immutable as $$
  select (array_remove(p_flaw, null))[flaws(p_flaw)]
$$;

-- Records what a watcher saw: fence, cursor and count, then the events of the assets that matched, in one transaction.
-- `p_unmatched` changes matched no asset. `p_batch` counts the batches of a term: a session that was cut off and comes later
-- than the one sent in its place leaves the cursor alone, which may have moved on since, and counts nothing again.
-- Raises OF001 when the watcher is no longer owned by p_owner with p_term, is no longer declared, or got other code since it
-- was claimed: an event without its cursor would be told again by the next start. Raises OF004 when it feeds other assets,
-- or with other matches, than when p_routing was read.
create function record_watched(
  p_watcher bigint, p_owner uuid, p_term bigint, p_routing bigint, p_cursor text, p_batch bigint, p_unmatched int,
  p_asset bigint[], p_sighting uuid[], p_hash uuid[], p_key text[], p_extra text[], p_source text[],
  p_flaw text[] default null, p_keyless boolean[] default null, p_now timestamptz default null
) returns table (n int, event_id bigint, status text) language plpgsql as $$
declare now_ timestamptz := coalesce(p_now, clock_timestamp()); found_routing bigint;
begin
  update watcher w
  set cursor = case when p_batch <= w.batch then w.cursor else coalesce(p_cursor::json, w.cursor) end,
      unmatched = w.unmatched + case when p_batch <= w.batch then 0 else p_unmatched end,
      last_unmatched_at = case when p_unmatched > 0 then now_ else w.last_unmatched_at end,
      flawed = w.flawed + case when p_batch <= w.batch then 0 else flaws(p_flaw) end,
      last_flawed_at = case when flaws(p_flaw) > 0 then now_ else w.last_flawed_at end,
      last_flaw = case when cardinality(p_asset) > 0 then last_flaw(p_flaw) else w.last_flaw end,
      batch = greatest(w.batch, p_batch), last_observation = now_,
      last_event_at = case when cardinality(p_asset) > 0 then now_ else w.last_event_at end,
      strikes = case when forgiven(w.claimed_at, w.strikes) then 0 else w.strikes end,
      last_error = case when forgiven(w.claimed_at, w.strikes) then null else w.last_error end
  where w.id = p_watcher and w.owner = p_owner and w.term = p_term and w.active and w.generation = w.claimed_generation
  returning w.routing into found_routing;
  if not found then
    raise exception 'watcher % is not owned by % with term %, or was edited', p_watcher, p_owner, p_term using errcode = 'OF001';
  end if;
  if found_routing <> p_routing then
    raise exception 'watcher % feeds other assets by now', p_watcher using errcode = 'OF004';
  end if;
  return query select * from record_events(p_asset, p_sighting, p_hash, p_key, p_extra, p_source, p_flaw, p_keyless, p_now);
end $$;

-- The same for a watcher of mode all, which every triggerer runs: each has a row of its own, and there is no cursor. Its
-- changes carry keys, so those that several triggerers tell are one event each. What matched nothing, or is
-- in quarantine, is counted by the triggerer with the smallest id alone, so that it is counted once.
create function record_watched_by_all(
  p_watcher bigint, p_owner uuid, p_term bigint, p_routing bigint, p_unmatched int,
  p_asset bigint[], p_sighting uuid[], p_hash uuid[], p_key text[], p_extra text[], p_source text[],
  p_flaw text[] default null, p_keyless boolean[] default null, p_now timestamptz default null
) returns table (n int, event_id bigint, status text) language plpgsql as $$
declare now_ timestamptz := coalesce(p_now, clock_timestamp()); found_routing bigint; ran bigint; flawed_ boolean;
begin
  update watching g
  set last_observation = now_, last_event_at = case when cardinality(p_asset) > 0 then now_ else g.last_event_at end,
      strikes = case when forgiven(g.claimed_at, g.strikes) then 0 else g.strikes end,
      last_error = case when forgiven(g.claimed_at, g.strikes) then null else g.last_error end
  where g.watcher_id = p_watcher and g.owner = p_owner and g.term = p_term and g.running
  returning g.generation into ran;
  select w.routing, w.last_flaw is not null into found_routing, flawed_
  from watcher w where w.id = p_watcher and w.active and w.generation = ran;
  if not found then
    raise exception 'watcher % is not run by % with term %, or was edited', p_watcher, p_owner, p_term using errcode = 'OF001';
  end if;
  if found_routing <> p_routing then
    raise exception 'watcher % feeds other assets by now', p_watcher using errcode = 'OF004';
  end if;
  if p_unmatched > 0 or flaws(p_flaw) > 0 or (flawed_ and cardinality(p_asset) > 0) then
    update watcher w
    set unmatched = w.unmatched + p_unmatched, last_unmatched_at = case when p_unmatched > 0 then now_ else w.last_unmatched_at end,
        flawed = w.flawed + flaws(p_flaw), last_flawed_at = case when flaws(p_flaw) > 0 then now_ else w.last_flawed_at end,
        last_flaw = case when cardinality(p_asset) > 0 then last_flaw(p_flaw) else w.last_flaw end
    where w.id = p_watcher and not exists (
      select 1 from watching o where o.watcher_id = p_watcher and o.running and o.owner < p_owner);
  end if;
  return query select * from record_events(p_asset, p_sighting, p_hash, p_key, p_extra, p_source, p_flaw, p_keyless, p_now);
end $$;

-- Subscribes a DAG to assets, which the caller has locked. The interval begins with the next event (one that was closed
-- since the last event began at the same number: it is opened again). With p_history it begins where an earlier one ended,
-- or with the oldest event that is stored and was not recorded before p_since, and is catching up: its events are
-- delivered by `catch_up`, and those that come meanwhile after them, so that all are judged in their order.
create function subscribe(p_dag bigint, p_assets bigint[], p_history boolean, p_since timestamptz) returns void
language plpgsql as $$
begin
  if p_history then
    insert into subscription as s (asset_id, dag_id, from_seq, until_seq, catching_up)
    select x.id, p_dag, x.begin, x.begin, true
    from (
      select a.id, a.seq, coalesce(
        (select max(o.until_seq) from subscription o where o.asset_id = a.id and o.dag_id = p_dag),
        (select e.seq from event e where e.asset_id = a.id and (p_since is null or e.created_at >= p_since) order by e.seq limit 1)
      ) as begin
      from asset a where a.id = any (p_assets) and not (p_dag = any (a.subscribers))
    ) x
    where x.begin <= x.seq
    on conflict (asset_id, dag_id, from_seq)
      do update set until_seq = excluded.until_seq, catching_up = true, ended_at = null, lapsed = false;
  end if;
  with subscribed as (
    update asset a set subscribers = array_append(a.subscribers, p_dag)
    where a.id = any (p_assets) and not (p_dag = any (a.subscribers))
      and not exists (select 1 from subscription s where s.asset_id = a.id and s.dag_id = p_dag and s.catching_up)
    returning a.id, a.seq
  )
  insert into subscription (asset_id, dag_id, from_seq) select id, p_dag, seq + 1 from subscribed
  on conflict (asset_id, dag_id, from_seq) do update set until_seq = null, ended_at = null, lapsed = false;
end $$;

-- Delivers the next p_limit stored events to a consumer that is catching up, under the asset's lock; those in quarantine
-- are held. With the last one its interval is opened. Returns how many were delivered, null when there was nothing to catch
-- up with.
create function catch_up(p_asset bigint, p_dag bigint, p_limit int) returns bigint language plpgsql as $$
declare top bigint; begin_ bigint; reached bigint; given bigint; pending bigint;
begin
  select a.seq into top from asset a where a.id = p_asset for no key update;
  select s.until_seq into begin_ from subscription s where s.asset_id = p_asset and s.dag_id = p_dag and s.catching_up;
  if not found then
    return null;
  end if;
  with batch as (
    select e.id, e.seq from event e where e.asset_id = p_asset and e.seq >= begin_ order by e.seq limit p_limit
  ), made as (
    insert into delivery (event_id, dag_id, asset_id, disposition, judged, reason, decided_at)
    select b.id, p_dag, p_asset,
           case when q.same_as is not null then 'discarded' when q.event_id is not null then 'held' else 'pending' end::disposition,
           q.event_id is not null,
           case when q.same_as is not null then same_change(q.same_as) when q.event_id is not null then 'quarantine' end,
           case when q.same_as is not null then clock_timestamp() end
    from batch b left join quarantine q on q.event_id = b.id and (q.released_at is null or q.same_as is not null) order by b.seq
    on conflict do nothing returning judged
  )
  select (select max(b.seq) from batch b), count(*), count(*) filter (where not m.judged) from made m into reached, given, pending;
  if reached is null or reached >= top then
    update asset a set subscribers = array_append(a.subscribers, p_dag)
    where a.id = p_asset and not (p_dag = any (a.subscribers));
    update subscription s set until_seq = null, catching_up = false
    where s.asset_id = p_asset and s.dag_id = p_dag and s.catching_up;
    if pending = 0 then -- who gathers was waiting for the last one
      update dag d set judge_at = '-infinity'
      where d.id = p_dag and starts_with(d.schedule_kind, 'asset:') and d.schedule_kind <> 'asset:each';
    end if;
  else
    update subscription s set until_seq = reached + 1
    where s.asset_id = p_asset and s.dag_id = p_dag and s.catching_up;
  end if;
  return given;
end $$;

-- Whether a person let a delivery go on: such a one is no part of a storm.
create function was_released(p_intervention bigint) returns boolean language sql stable as $$
  select p_intervention is not null and exists (select 1 from intervention i where i.id = p_intervention and i.kind = 'release')
$$;

-- Holds what came for a consumer in a storm, p_limit at most; the consumer is locked by the caller.
create function hold_storm(p_dag bigint, p_limit int) returns void language plpgsql as $$
begin
  update delivery y set disposition = 'held', judged = true, reason = 'storm'
  from (select o.event_id from delivery o
        where o.dag_id = p_dag and o.disposition = 'pending' and not o.judged and not was_released(o.intervention_id)
        order by o.event_id limit p_limit) x
  where y.dag_id = p_dag and y.event_id = x.event_id;
end $$;

-- Locks those of the consumers that nobody else holds, then reads which of their deliveries nobody has judged: the first
-- p_limit in commit order at most where each event is judged by itself, else p_gather. They come in one row per asset and
-- intervention, so that tens of thousands are read fast; a consumer without any has one row with null events. `hold` says
-- why the consumer may not consume now; `meanwhile`: of a paused one, what was recorded during the pause and nobody has
-- touched. Of one for which a person asked for one run of what waited, what that concerns comes first, alone. Of
-- one in a storm all is held but what a person released; `allowance` is how many more runs its events may start in this
-- minute before it is one (p_rate, if the DAG says nothing of its own; null = any number).
create function claim_deliveries(
  p_dags bigint[], p_limit int, p_gather int, p_rate int default null, p_now timestamptz default null
) returns table (
  dag bigint, version bigint, hold text, pause bigint, joining bigint, asset text, events bigint[], released boolean,
  meanwhile boolean, allowance bigint
) language plpgsql as $$
declare locked bigint[]; now_ timestamptz := coalesce(p_now, clock_timestamp());
begin
  locked := array(select d.id from dag d where d.id = any (p_dags) order by d.id for no key update skip locked);
  perform hold_storm(d.id, p_gather) from dag d where d.id = any (locked) and d.storm is not null and d.active and not d.paused;
  return query
  select d.id, d.version_id, case when not d.active then 'inactive' when d.paused then 'pause' end, d.pause_id, j.joining,
         (select a.name from asset a where a.id = x.asset_id), x.events, was_released(x.intervention_id), x.meanwhile,
         case when coalesce(d.max_runs_per_minute, p_rate) > 0
              then greatest(0, coalesce(d.max_runs_per_minute, p_rate)
                               - case when d.minute_at > now_ - interval '1 minute' then d.minute_runs else 0 end) end
  from dag d
  left join intervention p on p.id = d.pause_id and d.paused
  cross join lateral (
    select case when d.join_id is not null and d.active and not d.paused and coalesce(
      (select true from delivery y
       where y.dag_id = d.id and y.disposition = 'pending' and not y.judged and y.intervention_id = d.join_id limit 1),
      (select true from delivery y
       where y.dag_id = d.id and y.disposition = 'pending' and y.judged and y.intervention_id = d.join_id limit 1)
    ) then d.join_id end as joining
  ) j
  left join lateral (
    select o.asset_id, o.intervention_id, o.meanwhile, array_agg(o.event_id) as events
    from (select y.event_id, y.asset_id, y.intervention_id,
                 case when d.paused and y.intervention_id is null
                      then (select e.created_at from event e where e.id = y.event_id) > p.made_at end as meanwhile
          from delivery y
          where y.dag_id = d.id and y.disposition = 'pending' and not y.judged
            and (j.joining is null or y.intervention_id = j.joining)
            and (d.storm is null or d.paused or not d.active or was_released(y.intervention_id))
          order by y.event_id limit case when d.schedule_kind = 'asset:each' and j.joining is null then p_limit else p_gather end
    ) o group by o.asset_id, o.intervention_id, o.meanwhile
  ) x on true
  where d.id = any (locked) order by d.id;
end $$;

-- Pauses a DAG, under its lock: from now on its events are held (or discarded, if its author says so) and its runs stay
-- queued. Returns no row when there is no such DAG.
create function pause_dag(p_dag_id text, p_by text, p_reason text, p_now timestamptz default null)
returns table (active boolean, while_paused text) language plpgsql as $$
declare target dag%rowtype; made bigint;
begin
  select * into target from dag d where d.dag_id = p_dag_id for no key update;
  if not found then
    return;
  end if;
  if not target.paused then
    insert into intervention (dag_id, kind, by, reason, made_at)
    values (target.id, 'pause', p_by::json, p_reason, coalesce(p_now, clock_timestamp())) returning id into made;
    update dag d set paused = true, pause_id = made where d.id = target.id;
  end if;
  return query
  select target.active, coalesce(substring(v.spec::text from '"while_paused": ?"(\w+)"'), 'hold')
  from dag d left join dag_version v on v.id = d.version_id where d.id = target.id;
end $$;

-- Lets a paused DAG go on, under its lock. p_pending says what becomes of the events that wait for it: 'each' gives back
-- what the pause held, to be judged as ever (what a person had released or asked one run for stays so); 'join' marks all that is open, so that it is judged as one run; 'discard'
-- discards all of it. What is held for another reason than the pause stays held. Returns no row when there is no such DAG.
create function resume_dag(p_dag_id text, p_pending text, p_by text, p_reason text, p_now timestamptz default null)
returns table (active boolean, was_paused boolean, in_storm boolean, deliveries bigint) language plpgsql as $$
declare target dag%rowtype; made bigint; now_ timestamptz; total bigint := 0; changed bigint;
begin
  select * into target from dag d where d.dag_id = p_dag_id for no key update;
  if not found then
    return;
  end if;
  if target.paused then
    now_ := coalesce(p_now, clock_timestamp());
    insert into intervention (dag_id, kind, pending, by, reason, made_at)
    values (target.id, 'unpause', p_pending, p_by::json, p_reason, now_) returning id into made;
    if p_pending <> 'each' then
      update delivery y
      set disposition = case when p_pending = 'discard' then 'discarded' else 'pending' end::disposition,
          judged = p_pending = 'discard', intervention_id = made, decided_at = case when p_pending = 'discard' then now_ end,
          reason = case when p_pending = 'discard' then 'discarded when the DAG was resumed' end
      where y.dag_id = target.id and y.disposition = 'pending' and not y.judged;
      get diagnostics total = row_count;
    end if;
    update delivery y
    set disposition = case when p_pending = 'discard' then 'discarded' else 'pending' end::disposition,
        judged = p_pending = 'discard', decided_at = case when p_pending = 'discard' then now_ end,
        intervention_id = case when p_pending = 'each' and (y.intervention_id = target.join_id or was_released(y.intervention_id))
                               then y.intervention_id else made end,
        reason = case when p_pending = 'discard' then 'discarded when the DAG was resumed' end
    where y.dag_id = target.id and y.judged and y.disposition in ('pending', 'held')
      and (y.disposition = 'held' and y.reason = 'pause' or y.disposition = 'pending' and p_pending <> 'each');
    get diagnostics changed = row_count;
    total := total + changed;
    update intervention i set deliveries = total where i.id = made;
    update dag d set paused = false,
      join_id = case when p_pending = 'each' then d.join_id when p_pending = 'join' and total > 0 then made end,
      judge_at = case when p_pending = 'each' then d.judge_at end where d.id = target.id;
  end if;
  return query select target.active, target.paused, target.storm is not null, total;
end $$;

-- What a judgement comes to, whatever the counts and times are: two with the same verdict are told as one.
create function verdict(explanation json) returns text immutable language sql as $$
  select concat_ws('|', explanation ->> 'policy', explanation ->> 'condition', explanation ->> 'limit', explanation ->> 'filters')
$$;

-- Writes what was judged: decisions, runs and dispositions. The consumers are locked by the caller's transaction.
-- p_run_* describe the runs (index i), p_member_* their deliveries (p_member_run = index of the run), p_decision_* the
-- decisions (p_run_decision = index of the decision). p_run_waiting: how many deliveries a run takes beside its members,
-- all that were judged and wait; as deliveries are judged under the consumer's lock only, these are the ones that were
-- counted. p_run_counted: whether a run counts for the limit of runs in a minute. Raises OF002 unless exactly the given deliveries were pending.
create function create_asset_runs(
  p_process uuid, p_decision_dag bigint[], p_decision_version bigint[], p_explanation text[],
  p_run_dag bigint[], p_run_decision int[], p_run_start bigint[], p_run_waiting bigint[],
  p_member_run int[], p_member_event bigint[], p_run_counted boolean[], p_now timestamptz default null
) returns setof bigint language plpgsql as $$
declare
  now_ timestamptz := coalesce(p_now, clock_timestamp()); new_run bigint[]; new_decision bigint[]; changed bigint;
  expected bigint := cardinality(p_member_event); many int[]; i int; more bigint;
begin
  new_decision := array(select nextval('decision_id_seq') from generate_subscripts(p_decision_dag, 1));
  new_run := array(select nextval('run_id_seq') from generate_subscripts(p_run_dag, 1));
  insert into decision (id, dag_id, version_id, decided_at, process_id, explanation) overriding system value
  select u.id, u.dag, u.version, now_, p_process, u.explanation::json
  from unnest(new_decision, p_decision_dag, p_decision_version, p_explanation) as u (id, dag, version, explanation);
  with counted as (
    select u.dag, count(*) as runs, count(*) filter (where u.counted) as counted
    from unnest(p_run_dag, p_run_counted) as u (dag, counted) group by u.dag
  ), advanced as (
    update dag d set ordinal = d.ordinal + c.runs, last_judged_at = now_, last_judgement = null, judge_at = null,
      minute_at = case when d.minute_at > now_ - interval '1 minute' then d.minute_at else now_ end,
      minute_runs = c.counted + case when d.minute_at > now_ - interval '1 minute' then d.minute_runs else 0 end
    from counted c where d.id = c.dag returning d.id, d.ordinal - c.runs as base
  )
  insert into run (id, dag_id, run_id, run_type, ordinal, start_event, decision_id, created_by, created_at)
  overriding system value
  select u.id, u.dag, make_run_id('asset_triggered', now_, u.id), 'asset_triggered',
         a.base + row_number() over (partition by u.dag order by u.n), u.start, new_decision[u.decision],
         json_build_object('kind', 'scheduler', 'process', p_process), now_
  from unnest(new_run, p_run_dag, p_run_decision, p_run_start) with ordinality as u (id, dag, decision, start, n)
  join advanced a on a.id = u.dag order by u.n;
  -- A run of many finds them by one scan of an index, runs of few all together by a join. (By subscript, not by a join with
  -- the runs: the planner knows the size of no array and may multiply them all.)
  many := array(select m.run from unnest(p_member_run) as m (run) group by m.run having count(*) > 500);
  update delivery y
  set disposition = case when y.event_id = p_run_start[m.run] then 'started' else 'joined' end::disposition,
      run_id = new_run[m.run], judged = true, decided_at = now_
  from unnest(p_member_run, p_member_event) as m (run, event)
  where y.event_id = m.event and y.dag_id = p_run_dag[m.run] and y.disposition = 'pending' and m.run <> all (many);
  get diagnostics changed = row_count;
  foreach i in array many loop
    update delivery y
    set disposition = case when y.event_id = p_run_start[i] then 'started' else 'joined' end::disposition,
        run_id = new_run[i], judged = true, decided_at = now_
    where y.dag_id = p_run_dag[i] and y.disposition = 'pending'
      and y.event_id = any (array(select m.event from unnest(p_member_run, p_member_event) as m (run, event) where m.run = i));
    get diagnostics more = row_count;
    changed := changed + more;
  end loop;
  foreach i in array array(select n from generate_subscripts(p_run_waiting, 1) n where p_run_waiting[n] > 0) loop
    update delivery y
    set disposition = case when y.event_id = p_run_start[i] then 'started' else 'joined' end::disposition,
        run_id = new_run[i], decided_at = now_
    where y.dag_id = p_run_dag[i] and y.disposition = 'pending' and y.judged;
    get diagnostics more = row_count;
    changed := changed + more;
    expected := expected + p_run_waiting[i];
  end loop;
  if changed <> expected then
    raise exception '% deliveries were judged, % were pending', expected, changed using errcode = 'OF002';
  end if;
  return query select unnest(new_run);
end $$;

-- Creates runs of timed schedules: one per (dag, slot), whoever comes first. The DAGs are locked by the caller.
create function create_timed_runs(p_process uuid, p_dag bigint[], p_slot timestamptz[], p_now timestamptz default null)
returns setof bigint language plpgsql as $$
declare now_ timestamptz := coalesce(p_now, clock_timestamp());
begin
  return query
  with wanted as materialized (
    select u.dag, u.slot, row_number() over (partition by u.dag order by u.slot) as rank
    from unnest(p_dag, p_slot) as u (dag, slot) join dag d on d.id = u.dag
    where u.slot > coalesce(d.pruned_slot, '-infinity') and not exists (
      select 1 from run r where r.dag_id = u.dag and r.logical_date = u.slot and r.run_type <> 'rerun')
  ), advanced as (
    update dag d set ordinal = d.ordinal + w.runs from (select dag, count(*) as runs from wanted group by dag) w
    where d.id = w.dag returning d.id, d.ordinal - w.runs as base
  ), numbered as (
    select w.dag, w.slot, a.base + w.rank as ordinal, nextval('run_id_seq') as id from wanted w join advanced a on a.id = w.dag
  )
  insert into run (id, dag_id, run_id, run_type, ordinal, logical_date, created_by, created_at) overriding system value
  select n.id, n.dag, make_run_id('scheduled', now_, n.id), 'scheduled', n.ordinal, n.slot,
         json_build_object('kind', 'scheduler', 'process', p_process), now_
  from numbered n returning id;
end $$;

-- Creates a run by hand, or finds the one that p_request made when it came before. Returns no row when there is no such
-- active DAG.
create function create_manual_run(
  p_dag_id text, p_conf text, p_logical_date timestamptz, p_by text, p_now timestamptz default null, p_request uuid default null
) returns table (id bigint, run_id text, paused boolean) language plpgsql as $$
declare now_ timestamptz := coalesce(p_now, clock_timestamp()); target dag%rowtype;
begin
  select d.* from dag d where d.dag_id = p_dag_id and d.active for no key update into target;
  if not found then
    return;
  end if;
  if p_request is not null then
    return query select r.id, r.run_id, target.paused from run r where r.request = p_request;
    if found then
      return;
    end if;
  end if;
  update dag d set ordinal = d.ordinal + 1 where d.id = target.id returning d.* into target;
  return query
  insert into run as r (id, dag_id, run_id, run_type, ordinal, logical_date, conf, created_by, created_at, request)
  overriding system value
  select x.id, target.id, make_run_id('manual', now_, x.id), 'manual', target.ordinal, p_logical_date, p_conf::json,
         p_by::json, now_, p_request
  from (select nextval('run_id_seq') as id) x returning r.id, r.run_id, target.paused;
end $$;

-- Locks those of the DAGs that nobody else holds, counts their running runs in a later statement, and returns the queued
-- runs that may start now, in order, p_limit per DAG at most.
create function claim_startable_runs(p_dags bigint[], p_limit int)
returns table (run bigint, dag bigint, version bigint) language plpgsql as $$
declare locked bigint[];
begin
  locked := array(select d.id from dag d where d.id = any (p_dags) order by d.id for no key update skip locked);
  return query
  select x.id, d.id, d.version_id
  from dag d
  cross join lateral (select count(*) as running from run r where r.dag_id = d.id and r.state = 'running') c
  cross join lateral (
    select r.id, r.ordinal from run r where r.dag_id = d.id and r.state = 'queued'
    order by r.ordinal limit greatest(0, least(p_limit, d.max_active_runs - c.running))
  ) x
  where d.id = any (locked) and d.active and not d.paused and d.version_id is not null
  order by d.id, x.ordinal;
end $$;

-- Ends attempts: compare-and-set on the attempt, with return values and outlet events in the same transaction.
-- One element per attempt in p_task..p_skip; p_event_* belong to the attempt at index p_event_task.
-- `p_state` is the state the task gets; it is taken literally but for 'up_for_retry', which needs p_retry_seconds.
-- Returns per attempt: 'finished', 'repeated' (this very report was stored before), 'fenced' (somebody else decided).
create function finish_attempts(
  p_worker uuid, p_task bigint[], p_attempt int[], p_token uuid[], p_state task_state[], p_outcome outcome[],
  p_exit_code int[], p_error text[], p_retry_seconds double precision[], p_value text[], p_skip text[],
  p_event_task int[], p_event_asset bigint[], p_event_sighting uuid[], p_event_hash uuid[], p_event_key text[],
  p_event_extra text[], p_event_source text[], p_event_flaw text[], p_now timestamptz default null
) returns table (n int, status text) language plpgsql as $$
declare now_ timestamptz; valid int[]; live int[]; made bigint[];
begin
  -- assets first, task last; the events of an attempt are recorded only once its task is known to be ours. Who skips other
  -- tasks needs their run, as everybody does who changes several tasks of one run.
  perform 1 from asset a where a.id = any (p_event_asset) order by a.id for no key update;
  perform 1 from run r where r.id in (
    select t.run_id from unnest(p_task, p_skip) as u (id, skip) join task t on t.id = u.id where u.skip is not null)
  order by r.id for no key update;
  -- The indexes of the reports that are ours to make, not their tasks: a batch may hold a late report of an earlier attempt, too.
  valid := array(
    select u.n::int from task t join unnest(p_task, p_attempt, p_token) with ordinality as u (id, attempt, token, n) on t.id = u.id
    where t.attempt = u.attempt and t.token = u.token and t.owner = p_worker -- owned, so it is running
    order by t.id for no key update of t);
  now_ := coalesce(p_now, clock_timestamp());
  live := array(select u.n::int from unnest(p_event_task) with ordinality as u (task, n) where u.task = any (valid) order by u.n);
  if cardinality(live) > 0 then
    made := array(
      select case when e.status = 'stored' then e.event_id end from record_events(
        array(select p_event_asset[i] from unnest(live) i), array(select p_event_sighting[i] from unnest(live) i),
        array(select p_event_hash[i] from unnest(live) i), array(select p_event_key[i] from unnest(live) i),
        array(select p_event_extra[i] from unnest(live) i), array(select p_event_source[i] from unnest(live) i), p_now => p_now,
        p_flaw => case when p_event_flaw is not null then array(select p_event_flaw[i] from unnest(live) i) end) e
      order by e.n);
    perform trace_outlets(made, array(select p_task[p_event_task[i]] from unnest(live) i));
  end if;
  insert into xcom as x (run_id, task_id, map_index, key, value, attempt, stored_at)
  select t.run_id, t.task_id, t.map_index, 'return_value', u.value::json, u.attempt, now_
  from unnest(p_task, p_attempt, p_value) with ordinality as u (id, attempt, value, n) join task t on t.id = u.id
  where u.value is not null and u.n = any (valid) order by t.id
  on conflict (run_id, task_id, map_index, key) do update
  set value = excluded.value, attempt = excluded.attempt, stored_at = excluded.stored_at;
  update attempt a set finished_at = now_, outcome = u.outcome, exit_code = u.exit_code, error = u.error::json
  from unnest(p_task, p_attempt, p_outcome, p_exit_code, p_error) with ordinality
    as u (id, attempt, outcome, exit_code, error, n)
  where a.task_id = u.id and a.number = u.attempt and u.n = any (valid);
  update task t
  set state = u.state, settled = u.state = 'queued', owner = null, lease_until = null,
      failures = t.failures + case when u.outcome in ('failed', 'timed_out', 'killed', 'crashed') then 1 else 0 end,
      retry_at = case when u.state = 'up_for_retry' then now_ + make_interval(secs => u.retry_seconds) end,
      finished_at = now_
  from unnest(p_task, p_state, p_outcome, p_retry_seconds) with ordinality as u (id, state, outcome, retry_seconds, n)
  where t.id = u.id and u.n = any (valid);
  update task t set state = 'skipped', settled = false, finished_at = now_
  from unnest(p_task, p_skip) with ordinality as u (id, skip, n)
  join task done on done.id = u.id
  where u.skip is not null and u.n = any (valid) and t.run_id = done.run_id and t.state in ('waiting', 'ready')
    and t.task_id in (select json_array_elements_text(u.skip::json));
  return query
  select u.n::int, case when u.n = any (valid) then 'finished' when a.outcome = u.outcome then 'repeated' else 'fenced' end
  from unnest(p_task, p_attempt, p_token, p_outcome) with ordinality as u (id, attempt, token, outcome, n)
  left join attempt a on a.task_id = u.id and a.number = u.attempt and a.token = u.token order by u.n;
end $$;

-- Starts queued runs of one DAG version: pins the version and writes the task rows. The DAGs are locked by the caller.
-- The task arrays describe the version's tasks with the states they begin in.
create function start_runs(
  p_runs bigint[], p_version bigint, p_timeout_seconds double precision, p_no int[], p_task text[], p_state task_state[],
  p_priority int[], p_executor text[], p_queue text[], p_now timestamptz default null
) returns int language plpgsql as $$
declare now_ timestamptz := coalesce(p_now, clock_timestamp()); started int;
begin
  update run r set state = 'running', version_id = p_version, started_at = now_,
    source_hash = (select d.source_hash from dag d where d.id = r.dag_id),
    deadline_at = now_ + make_interval(secs => p_timeout_seconds)
  where r.id = any (p_runs) and r.started_at is null; -- queued, without the index of all that are
  get diagnostics started = row_count;
  if started <> cardinality(p_runs) then
    raise exception '% of % runs were queued', started, cardinality(p_runs) using errcode = 'OF002';
  end if;
  insert into task (run_id, task_no, task_id, state, priority, executor, queue, queued_at, finished_at)
  select r, u.no, u.task, u.state, u.priority, u.executor, u.queue, case when u.state = 'queued' then now_ end,
         case when u.state in ('skipped', 'upstream_failed') then now_ end
  from unnest(p_runs) with ordinality as x (r, n)
  cross join unnest(p_no, p_task, p_state, p_priority, p_executor, p_queue) as u (no, task, state, priority, executor, queue)
  order by x.n, u.no;
  return started;
end $$;

-- Locks those of the runs that nobody else holds, then reads their tasks in a later statement.
create function claim_tasks_of_runs(p_runs bigint[], p_now timestamptz default null)
returns table (run bigint, dag bigint, version bigint, state run_state, task bigint[], task_id text[], task_state text[], settled boolean[],
               due boolean[]) language plpgsql as $$
declare locked bigint[];
begin
  locked := array(select r.id from run r where r.id = any (p_runs) order by r.id for no key update skip locked);
  return query
  select r.id, r.dag_id, r.version_id, r.state, array_agg(t.id order by t.id), array_agg(t.task_id order by t.id),
         array_agg(t.state::text order by t.id), array_agg(t.settled order by t.id),
         array_agg(coalesce(t.retry_at <= coalesce(p_now, clock_timestamp()), false) order by t.id)
  from run r join task t on t.run_id = r.id where r.id = any (locked) group by r.id;
end $$;

-- Writes what was decided about tasks and runs; a task that is no longer in the state it was judged in is left alone.
create function advance_tasks(
  p_task bigint[], p_old task_state[], p_new task_state[], p_settled bigint[], p_run bigint[], p_run_state run_state[],
  p_now timestamptz default null
) returns void language plpgsql as $$
declare now_ timestamptz := coalesce(p_now, clock_timestamp());
begin
  update task t set settled = true where t.id = any (p_settled) and not t.settled;
  update task t
  set state = u.new, retry_at = null, queued_at = case when u.new = 'queued' then now_ else t.queued_at end,
      finished_at = case when u.new in ('skipped', 'upstream_failed') then now_ else t.finished_at end
  from unnest(p_task, p_old, p_new) as u (id, old, new) where t.id = u.id and t.state = u.old;
  update run r set state = u.state, finished_at = now_
  from unnest(p_run, p_run_state) as u (id, state) where r.id = u.id and r.state = 'running';
end $$;

-- Ends runs that are over their time: the run fails, what had not ended is skipped, what runs is taken from its worker.
create function expire_runs(p_limit int, p_now timestamptz default null) returns setof bigint language plpgsql as $$
declare now_ timestamptz := coalesce(p_now, clock_timestamp()); expired bigint[];
begin
  expired := array(
    select r.id from run r where r.state = 'running' and r.deadline_at < now_ order by r.id limit p_limit
    for no key update skip locked);
  if expired = '{}' then
    return;
  end if;
  -- tasks before their attempts, as for whoever finishes or claims one meanwhile
  perform 1 from task t where t.run_id = any (expired) and t.state in ('waiting', 'ready', 'queued', 'running', 'up_for_retry')
  order by t.id for no key update;
  update attempt a set finished_at = now_, outcome = 'stopped'
  from task t where t.run_id = any (expired) and t.state = 'running' and a.task_id = t.id and a.number = t.attempt
    and a.outcome is null;
  update task t
  set state = case when t.state = 'running' then 'failed' else 'skipped' end::task_state, settled = true, owner = null,
      lease_until = null, retry_at = null, finished_at = now_
  where t.run_id = any (expired) and t.state in ('waiting', 'ready', 'queued', 'running', 'up_for_retry');
  update run r set state = 'failed', finished_at = now_, end_reason = 'dagrun_timeout' where r.id = any (expired) and r.state = 'running';
  return query select unnest(expired);
end $$;

-- Locks those of the timed DAGs that nobody else holds, then reads what is due in a later statement, but for DAGs with
-- p_full runs in the queue.
create function claim_due_dags(p_dags bigint[], p_full int, p_now timestamptz default null)
returns table (dag bigint, version bigint, next_slot_at timestamptz, anchor_at timestamptz, now_at timestamptz)
language plpgsql as $$
declare locked bigint[]; now_ timestamptz := coalesce(p_now, clock_timestamp());
begin
  locked := array(select d.id from dag d where d.id = any (p_dags) order by d.id for no key update skip locked);
  return query
  select d.id, d.version_id, d.next_slot_at, d.anchor_at, now_ from dag d
  where d.id = any (locked) and d.active and not d.paused and d.next_slot_at <= now_ and d.version_id is not null
    and not exists (select 1 from run r where r.dag_id = d.id and r.state = 'queued' offset p_full - 1)
  order by d.id;
end $$;

-- Locks those of the continuous DAGs that nobody else holds and that have no run under way, and starts the next one.
create function create_continuous_runs(p_process uuid, p_dags bigint[], p_now timestamptz default null)
returns setof bigint language plpgsql as $$
declare locked bigint[]; now_ timestamptz;
begin
  locked := array(select d.id from dag d where d.id = any (p_dags) order by d.id for no key update skip locked);
  now_ := coalesce(p_now, clock_timestamp());
  locked := array(
    select d.id from dag d
    where d.id = any (locked) and d.active and not d.paused and d.schedule_kind = 'continuous'
      and coalesce(d.next_slot_at, '-infinity') <= now_
      and not exists (select 1 from run r where r.dag_id = d.id and r.state = 'queued')
      and not exists (select 1 from run r where r.dag_id = d.id and r.state = 'running'));
  return query select create_timed_runs(p_process, locked, array_fill(now_, array[cardinality(locked)]), now_);
end $$;

-- Gives tasks of vanished workers back, at most p_lost_limit times per task. Without p_take_over only those whose owner
-- was declared dead (lease_until = -infinity), not those whose lease merely ran out.
create function rescue_tasks(p_limit int, p_lost_limit int, p_take_over boolean, p_now timestamptz default null)
returns table (task bigint, run bigint, state task_state) language plpgsql as $$
declare now_ timestamptz := coalesce(p_now, clock_timestamp()); lost bigint[];
begin
  lost := array(
    select t.id from task t
    where t.state = 'running' and t.lease_until <= case when p_take_over then now_ else '-infinity' end
    order by t.id limit p_limit for no key update skip locked);
  if lost = '{}' then
    return;
  end if;
  update attempt a set finished_at = now_, outcome = 'lost'
  from task t where t.id = any (lost) and a.task_id = t.id and a.number = t.attempt and a.outcome is null;
  return query
  update task t
  set owner = null, lease_until = null, losses = t.losses + 1, finished_at = case when t.losses + 1 >= p_lost_limit then now_ end,
      state = case when t.losses + 1 >= p_lost_limit then 'failed' else 'queued' end::task_state,
      settled = t.losses + 1 < p_lost_limit, queued_at = now_
  where t.id = any (lost) and t.state = 'running' returning t.id, t.run_id, t.state;
end $$;
