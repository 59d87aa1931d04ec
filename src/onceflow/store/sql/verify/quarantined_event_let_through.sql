-- A quarantined event has a delivery that is not held for it; or one is held for a quarantine that is over.
select y.event_id as event, y.dag_id as dag, y.disposition, y.reason, q.flaw, q.released_at
from delivery y
left join quarantine q on q.event_id = y.event_id
where (q.released_at is null and q.event_id is not null and y.disposition not in ('held', 'discarded'))
   or (y.disposition = 'held' and y.reason = 'quarantine' and (q.event_id is null or q.released_at is not null))
order by y.event_id limit $1
