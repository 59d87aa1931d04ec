-- Gives a failed watcher up with a strike: it is tried again after 1, 2, 4, … 256 s, by whoever owns it then, or, in mode
-- all, by this triggerer.
with shared as (
  update watching g set running = false, strikes = g.strikes + 1, last_error = $4::json, last_error_at = clock_timestamp(),
    next_try_at = clock_timestamp() + back_off(g.strikes)
  where g.watcher_id = $2 and g.owner = $1 and g.term = $3 and g.running
)
update watcher w set owner = null, released_at = clock_timestamp(), strikes = w.strikes + 1, last_error = $4::json, last_error_at = clock_timestamp(),
  next_try_at = clock_timestamp() + back_off(w.strikes)
where w.id = $2 and w.owner = $1 and w.term = $3
