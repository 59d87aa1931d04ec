-- Stops a watcher that tells too much, with its cursor where it was: nobody runs it until a person releases it. $1 owner,
-- $2 watcher, $3 term, $4 what tripped it (JSON). In mode all whoever runs it may do so.
with shared as (
  update watching g set running = false where g.watcher_id = $2 and g.owner = $1 and g.term = $3 and g.running returning 1
)
update watcher w set owner = null, released_at = clock_timestamp(), next_try_at = 'infinity', storm = $4::json, storm_at = clock_timestamp()
where w.id = $2 and w.storm is null and (w.owner = $1 and w.term = $3 or exists (select 1 from shared))
