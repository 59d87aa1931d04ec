update delivery y set disposition = 'held', judged = true, reason = u.reason
from unnest($1::bigint[], $2::bigint[], $3::text[]) as u (dag, event, reason)
where y.event_id = u.event and y.dag_id = u.dag and y.disposition = 'pending'
