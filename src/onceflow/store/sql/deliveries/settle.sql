-- Holds deliveries, or decides them without a run: filtered, discarded. The consumers are locked.
-- $1 dags, $2 events, $3 dispositions, $4 reasons, $5 interventions, $6 now.
update delivery y
set disposition = u.disposition::disposition, judged = true, reason = u.reason,
    intervention_id = coalesce(u.intervention, y.intervention_id),
    decided_at = case when u.disposition <> 'held' then coalesce($6, clock_timestamp()) end
from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[])
  as u (dag, event, disposition, reason, intervention)
where y.event_id = u.event and y.dag_id = u.dag and y.disposition = 'pending'
