-- Watchers with the assets that each feeds, who runs it and what was last seen. `lag` is the seconds since the last observation,
-- or if there is none since the claim or the declaration; `quiet` those since the observation or the claim, `unowned_for` those
-- for which nobody has run it. $1 asset or null, $2 active or null = any, $3 limit.
with listed as (
  select w.*, p.host as owner_host, p.pid as owner_pid, coalesce(p.state = 'running' and p.ready_until > clock_timestamp(), false) as owner_ready,
         p.ready_until, g.watched_by, coalesce(g.held, false) as shared_held, coalesce(g.waiting, false) as shared_waiting,
         coalesce(g.strikes, 0) as shared_strikes, g.last_error as shared_error, g.last_error_at as shared_error_at,
         greatest(w.last_observation, g.last_observation) as seen_at, greatest(w.claimed_at, g.claimed_at) as begun_at,
         greatest(w.last_event_at, g.last_event_at) as told_at
  from watcher w
  left join process p on p.id = w.owner
  left join lateral (
    select bool_or(g.running and q.id is not null) as held, bool_or(not g.running and g.next_try_at > clock_timestamp()) as waiting,
           max(g.strikes) as strikes, max(g.last_observation) as last_observation, max(g.claimed_at) as claimed_at,
           max(g.last_event_at) as last_event_at, max(g.last_error_at) as last_error_at,
           (array_agg(g.last_error order by g.last_error_at desc nulls last))[1] as last_error,
           json_agg(json_build_object(
             'owner', g.owner, 'host', q.host, 'pid', q.pid, 'running', g.running and q.id is not null, 'since', g.claimed_at,
             'last_observation', g.last_observation, 'strikes', g.strikes, 'last_error', g.last_error,
             'next_try_at', case when g.next_try_at > '-infinity' then g.next_try_at end) order by g.owner) as watched_by
    from watching g left join process q on q.id = g.owner and q.state = 'running' and q.ready_until > clock_timestamp()
    where g.watcher_id = w.id
  ) g on w.mode = 'all'
  where ($1::text is null or exists (
      select 1 from watch x join asset a on a.id = x.asset_id where x.watcher_id = w.id and a.name = $1))
    and ($2::boolean is null or w.active = $2)
)
select l.id, f.asset, f.watcher, coalesce(f.assets, '[]') as assets, l.mode, l.owner, l.term, l.cursor, l.seen_at as last_observation,
       l.told_at as last_event_at, l.unmatched, l.last_unmatched_at, l.flawed, l.last_flawed_at,
       case when l.last_flaw is not null and exists (
         select 1 from quarantine q join event e on e.id = q.event_id join watch x on x.asset_id = e.asset_id
         where q.released_at is null and x.watcher_id = l.id and x.active
           and (exists (select 1 from delivery y where y.event_id = e.id and y.disposition = 'held')
                or not exists (select 1 from delivery y where y.event_id = e.id))) then l.last_flaw end as flaw,
       l.silent_after, l.canary as canary_every, y.canary, y.canary_waits, l.storm, l.storm_at, coalesce(l.last_error, l.shared_error) as last_error,
       coalesce(l.last_error_at, l.shared_error_at) as last_error_at, case when l.next_try_at < 'infinity' then l.next_try_at end as next_try_at, greatest(l.strikes, l.shared_strikes) as strikes,
       l.active, l.active_since, l.classpath, l.begun_at as claimed_at, l.owner_host, l.owner_pid,
       coalesce(l.watched_by, '[]') as watched_by,
       case l.mode when 'all' then l.shared_held else l.owner_ready end as held,
       case l.mode when 'all' then l.shared_waiting and not l.shared_held else l.next_try_at > clock_timestamp() end as waiting,
       coalesce(l.seen_at >= l.begun_at, false) as observed,
       extract(epoch from clock_timestamp() - coalesce(l.seen_at, l.begun_at, l.active_since))::double precision as lag,
       extract(epoch from clock_timestamp() - greatest(l.seen_at, l.begun_at, l.active_since))::double precision as quiet,
       extract(epoch from clock_timestamp() - greatest(
         l.active_since, case when l.owner is null then l.released_at else coalesce(l.ready_until, l.claimed_at) end
       ))::double precision as unowned_for,
       coalesce((
         select array_agg(distinct d.place order by d.place) from watch x
         join watch_declaration d on d.asset_id = x.asset_id and d.name = x.name where x.watcher_id = l.id), '{}') as places
from listed l
left join lateral (
  select (array_agg(a.name order by a.name = $1 desc, a.name, x.name))[1] as asset,
         (array_agg(x.name order by a.name = $1 desc, a.name, x.name))[1] as watcher,
         json_agg(json_build_object('asset', a.name, 'watcher', x.name, 'match', x.match) order by a.name, x.name) as assets
  from watch x join asset a on a.id = x.asset_id where x.watcher_id = l.id and x.active >= l.active
) f on true
left join lateral (
  select json_build_object('delay', c.delay, 'made_at', c.made_at, 'to_notice', extract(epoch from c.noticed_at - c.made_at)::double precision,
           'to_store', extract(epoch from c.stored_at - c.noticed_at)::double precision,
           'to_judge', extract(epoch from c.judged_at - c.stored_at)::double precision) as canary,
         case when c.judged_at is null then extract(epoch from clock_timestamp() - c.stored_at)::double precision end as canary_waits
  from canary c where c.watcher_id = l.id and l.canary is not null
) y on true
order by f.asset, f.watcher, l.id limit $3
