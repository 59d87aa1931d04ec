-- One event. $1 id.
select e.id, a.name as asset, a.uri, e.seq, e.key, e.extra, e.source, e.sighting, e.created_at,
       (select 1 + count(*) from witness w where w.event_id = e.id) as witnesses
from event e join asset a on a.id = e.asset_id
where e.id = $1
