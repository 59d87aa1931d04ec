-- Gives up a watcher whose trigger came to its end, to be started again in a while; that is no failure.
with shared as (
  update watching g set running = false, next_try_at = clock_timestamp() + make_interval(secs => $4)
  where g.watcher_id = $2 and g.owner = $1 and g.term = $3 and g.running
)
update watcher w set owner = null, released_at = clock_timestamp(), next_try_at = clock_timestamp() + make_interval(secs => $4)
where w.id = $2 and w.owner = $1 and w.term = $3
