-- The decision that made a run, and the DAG as it stands. $1 dag_id, $2 run_id.
select c.id as decision, c.decided_at, c.process_id, c.explanation, v.number as decided_version, r.start_event,
       d.paused, d.active, d.max_active_runs,
       (select count(*) from run x where x.dag_id = d.id and x.state = 'running') as running,
       (select count(*) from run x where x.dag_id = d.id and x.state = 'queued' and x.ordinal < r.ordinal) as before,
       r.deadline_at, r.downstream,
       (select json_build_object('kind', i.kind, 'by', i.by, 'reason', i.reason, 'details', i.details, 'pending', i.pending,
         'at', to_char(i.made_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
        from intervention i where i.id = r.intervention_id) as intervention_made
from run r
join dag d on d.id = r.dag_id
left join decision c on c.id = r.decision_id
left join dag_version v on v.id = c.version_id
where d.dag_id = $1 and r.run_id = $2
