update delivery y set judged = true from unnest($1::bigint[], $2::bigint[]) as u (dag, event)
where y.event_id = u.event and y.dag_id = u.dag and y.disposition = 'pending' and not y.judged
