-- The later sightings of an event. $1 event, $2 limit.
select sighting, source, differs, seen_at from witness where event_id = $1 order by seen_at, sighting limit $2
