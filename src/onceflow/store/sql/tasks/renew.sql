-- Renews the leases of exactly the attempts that the worker runs; those not returned are no longer its own.
update task t set lease_until = clock_timestamp() + make_interval(secs => $4)
from unnest($2::bigint[], $3::uuid[]) as u (id, token)
where t.id = u.id and t.token = u.token and t.owner = $1 and t.state = 'running' returning t.id
