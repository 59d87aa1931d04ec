update process set last_seen = clock_timestamp(), lease_until = clock_timestamp() + make_interval(secs => $2)
where id = $1 and state = 'running' returning lease_until
