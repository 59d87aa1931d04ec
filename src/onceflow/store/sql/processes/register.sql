insert into process (id, kind, host, pid, parent_pid, version, lease_until)
values ($1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => $7))
