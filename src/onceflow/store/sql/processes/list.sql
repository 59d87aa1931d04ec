-- Processes in the order of their start; one whose lease ran out unnoticed is 'silent'. `ready`: it does its work, which is
-- more than to live. $1 kind or null, $2 limit.
select p.id, p.kind, p.host, p.pid, p.parent_pid, p.started_at, p.last_seen,
       case when p.state = 'running' and p.lease_until < clock_timestamp() then 'silent' else p.state end as state,
       p.state = 'running' and p.ready_until > clock_timestamp() as ready, p.version, p.ended_at
from process p
where $1::text is null or p.kind = $1
order by p.started_at, p.id limit $2
