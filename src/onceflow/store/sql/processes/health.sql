-- Per kind of process: the last sign of life, how many hold their lease, and how many of them do their work.
select kind, max(last_seen) as last_seen, count(*) filter (where lease_until > clock_timestamp()) as live,
       count(*) filter (where ready_until > clock_timestamp()) as ready
from process where state = 'running' group by kind
