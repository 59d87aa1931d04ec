-- Per kind of process: the last sign of life, and how many hold their lease.
select kind, max(last_seen) as last_seen, count(*) filter (where state = 'running' and lease_until > clock_timestamp()) as live
from process where state = 'running' group by kind
