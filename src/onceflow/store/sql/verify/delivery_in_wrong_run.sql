-- G3: a started or joined delivery belongs to an asset run of its own DAG, or to a pruned one; only the start event started it.
select y.event_id as event, y.dag_id as dag, y.disposition, r.run_id, r.dag_id as run_dag, r.start_event
from delivery y
left join run r on r.id = y.run_id
where (y.run_id is not null or y.disposition in ('started', 'joined'))
  and not (y.disposition = 'joined' and y.run_id is null and y.reason = 'pruned')
  and (r.id is null or r.dag_id <> y.dag_id or r.start_event is null
       or y.disposition not in ('started', 'joined') or (y.disposition = 'started') <> (y.event_id = r.start_event))
order by y.event_id limit $1
