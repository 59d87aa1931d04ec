-- Watchers with their owner and what they last saw. `lag` is the seconds since the last observation, or since the claim if
-- there is none. $1 asset or null, $2 active or null = any, $3 limit.
select w.id, a.name as asset, w.name as watcher, w.mode, w.owner, w.term, w.cursor, w.last_observation, w.last_event_at,
       w.last_error, w.last_error_at, w.next_try_at, w.strikes, w.active, w.classpath, w.lease_until, w.claimed_at,
       w.owner is not null and w.lease_until > clock_timestamp() as held, w.next_try_at > clock_timestamp() as waiting,
       extract(epoch from clock_timestamp() - coalesce(w.last_observation, w.claimed_at))::double precision as lag,
       p.host as owner_host, p.pid as owner_pid,
       coalesce((select array_agg(c.place order by c.place) from watcher_declaration c where c.watcher_id = w.id), '{}')
         as places
from watcher w
join asset a on a.id = w.asset_id
left join process p on p.id = w.owner
where ($1::text is null or a.name = $1) and ($2::boolean is null or w.active = $2)
order by a.name, w.name limit $3
