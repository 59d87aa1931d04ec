-- One event. $1 id.
select e.id, a.name as asset, a.uri, e.seq, e.key, e.extra, e.source, e.sighting, e.created_at,
       (select 1 + count(*) from witness w where w.event_id = e.id) as witnesses,
       q.flaw, q.stand_in is not null as keyless, q.same_as, q.held_at, q.released_at, q.released_by, q.reason as released_because, q.extra as extra_as_it_came
from event e join asset a on a.id = e.asset_id
left join quarantine q on q.event_id = e.id
where e.id = $1
