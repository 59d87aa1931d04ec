-- A quarantined event: what it is known by, its payload as it stands and as it came, and what the watchers of its asset declare as the
-- key. `keyless`: it gave none, and is known by its payload. $1 event.
select a.name as asset, e.key, e.extra, q.extra as as_it_came, e.hash = q.stand_in as keyless, e.source ->> 'watcher' as watcher,
       (select coalesce(json_object_agg(x.name, x.key), '{}') from watch x where x.asset_id = e.asset_id and x.active) as watches
from event e join asset a on a.id = e.asset_id join quarantine q on q.event_id = e.id
where e.id = $1 and q.released_at is null
