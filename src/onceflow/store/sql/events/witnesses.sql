-- The later sightings of an event, and how many seconds behind the first. $1 event, $2 limit.
select w.sighting, w.source, w.differs, w.seen_at,
       extract(epoch from w.seen_at - e.created_at)::double precision as behind_seconds
from witness w join event e on e.id = w.event_id
where w.event_id = $1 order by w.seen_at, w.sighting limit $2
