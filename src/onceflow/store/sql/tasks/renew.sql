-- Renews the leases of exactly the attempts that the worker runs; those not returned are no longer its own.
with held as materialized (
  select t.id from unnest($2::bigint[], $3::uuid[]) as u (id, token)
  join task t on t.id = u.id and t.token = u.token and t.owner = $1 -- owned, so it is running
  order by t.id for no key update of t
)
update task t set lease_until = clock_timestamp() + make_interval(secs => $4) from held h where t.id = h.id returning t.id
