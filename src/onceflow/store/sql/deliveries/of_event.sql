-- What became of an event: one row per consumer, with the consumer as it stands. $1 event.
with intervention_told as (
  select i.id, json_build_object('kind', i.kind, 'by', i.by, 'pending', i.pending, 'reason', i.reason,
                                 'at', to_char(i.made_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) as told
  from intervention i
)
select d.dag_id, y.disposition, y.judged, y.reason, y.decided_at, r.run_id, r.state as run_state, c.explanation,
       d.paused, d.active, d.schedule_kind, d.last_judged_at, d.last_judgement, d.max_active_runs,
       (select count(*) from run x where x.dag_id = d.id and x.state = 'running') as running,
       f.failure is not null as broken,
       (select i.told from intervention_told i where i.id = y.intervention_id) as intervention_made,
       (select i.told from intervention_told i where i.id = d.pause_id and d.paused) as pause_made
from delivery y
left join dag d on d.id = y.dag_id
left join dag_file f on f.id = d.file_id
left join run r on r.id = y.run_id
left join decision c on c.id = r.decision_id
where y.event_id = $1
order by d.dag_id
