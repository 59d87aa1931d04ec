-- Declares watchers. An unchanged one is not touched; changed code starts it again from its cursor, also out of a storm.
update watcher w
set active = true, active_since = case when w.active then w.active_since else clock_timestamp() end,
    file = u.file, silent_after = u.silent_after, canary = u.canary, max_events_per_minute = u.max_events_per_minute,
    generation = w.generation + case when w.code = u.code and w.canary is not distinct from u.canary then 0 else 1 end,
    strikes = case when w.active and w.code = u.code then w.strikes else 0 end,
    next_try_at = case when w.active and w.code = u.code then w.next_try_at else '-infinity' end,
    storm = case when w.active and w.code = u.code then w.storm end,
    storm_at = case when w.active and w.code = u.code then w.storm_at end,
    code = u.code
from unnest($1::text[], $2::text[], $3::text[], $4::double precision[], $5::int[], $6::double precision[])
  as u (definition, file, code, silent_after, max_events_per_minute, canary)
where w.definition = u.definition
  and (not w.active or (w.file, w.code, w.silent_after, w.max_events_per_minute, w.canary)
    is distinct from (u.file, u.code, u.silent_after, u.max_events_per_minute, u.canary))
