-- Gives a failed watcher up with a strike: it is tried again after 1, 2, 4, … 256 s, by whoever owns it then.
update watcher w set owner = null, lease_until = null, strikes = w.strikes + 1, last_error = $4::json,
  last_error_at = clock_timestamp(),
  next_try_at = clock_timestamp() + back_off(w.strikes)
where w.id = $2 and w.owner = $1 and w.term = $3 returning w.next_try_at
