-- Renews a process's lease, and with $3 (it does its work, too) its readiness; its rank is how many of its kind that are alive
-- have a smaller id.
update process p set last_seen = clock_timestamp(), lease_until = clock_timestamp() + make_interval(secs => $2),
  ready_until = case when $3 then clock_timestamp() + make_interval(secs => $2) else p.ready_until end
where p.id = $1 and p.state = 'running'
returning (select count(*) from process o
           where o.kind = p.kind and o.state = 'running' and o.lease_until > clock_timestamp() and o.id < p.id) as rank
