-- A quarantined event has a delivery that is not held for it, one is held for a quarantine that is over, or an event that is the change of another is not discarded.
select y.event_id as event, y.dag_id as dag, y.disposition, y.reason, q.flaw, q.released_at
from delivery y
left join quarantine q on q.event_id = y.event_id
where (q.released_at is null and q.event_id is not null and y.disposition not in ('held', 'discarded'))
   or (y.disposition = 'held' and y.reason = 'quarantine' and (q.event_id is null or q.released_at is not null))
   or (q.same_as is not null and y.disposition <> 'discarded')
order by y.event_id limit $1
