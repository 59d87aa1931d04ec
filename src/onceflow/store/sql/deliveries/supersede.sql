-- Deliveries that were judged and wait give way to a newer one of their asset that is in a run, or is about to be in it.
-- The consumers are locked. $1 dags, $2 the newer events, $3 now.
update delivery o
set disposition = 'superseded', decided_at = coalesce($3, clock_timestamp()),
    reason = 'event ' || n.event_id || ' of the same asset is newer, and went into run ' || r.run_id
from unnest($1::bigint[], $2::bigint[]) as u (dag, event)
join delivery n on n.dag_id = u.dag and n.event_id = u.event
join run r on r.id = n.run_id
where o.dag_id = n.dag_id and o.asset_id = n.asset_id and o.event_id < n.event_id and o.disposition = 'pending' and o.judged
