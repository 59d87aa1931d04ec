-- Gives up a watcher whose trigger came to its end, to be started again in a while; that is no failure.
update watcher w set owner = null, lease_until = null, next_try_at = clock_timestamp() + make_interval(secs => $4)
where w.id = $2 and w.owner = $1 and w.term = $3
