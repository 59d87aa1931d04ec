-- Renews the leases of exactly the watchers that the triggerer runs; those not returned are no longer its own.
update watcher w set lease_until = clock_timestamp() + make_interval(secs => $5),
  last_observation = case when u.observed then clock_timestamp() else w.last_observation end,
  strikes = case when u.observed then 0 else w.strikes end,
  last_error = case when u.observed then null else w.last_error end
from unnest($2::bigint[], $3::bigint[], $4::boolean[]) as u (id, term, observed)
where w.id = u.id and w.owner = $1 and w.term = u.term and w.active returning w.id, w.generation
