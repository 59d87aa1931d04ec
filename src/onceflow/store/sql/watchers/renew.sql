-- Renews the leases of exactly the watchers that the triggerer runs; those not returned are no longer its own.
-- One that nobody declares any more has generation 0: no trigger was started for that.
with held as materialized (
  select w.id, u.observed from unnest($2::bigint[], $3::bigint[], $4::boolean[]) as u (id, term, observed)
  join watcher w on w.id = u.id and w.owner = $1 and w.term = u.term order by w.id for no key update of w
)
update watcher w set lease_until = clock_timestamp() + make_interval(secs => $5),
  last_observation = case when h.observed then clock_timestamp() else w.last_observation end,
  strikes = case when h.observed and forgiven(w.claimed_at, w.strikes) then 0 else w.strikes end,
  last_error = case when h.observed and forgiven(w.claimed_at, w.strikes) then null else w.last_error end
from held h where w.id = h.id returning w.id, case when w.active then w.generation else 0 end as generation
