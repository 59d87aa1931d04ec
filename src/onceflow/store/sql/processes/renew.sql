-- Renews a process's lease; its rank is how many of its kind that are alive have a smaller id.
update process p set last_seen = clock_timestamp(), lease_until = clock_timestamp() + make_interval(secs => $2)
where p.id = $1 and p.state = 'running'
returning (select count(*) from process o
           where o.kind = p.kind and o.state = 'running' and o.lease_until > clock_timestamp() and o.id < p.id) as rank
