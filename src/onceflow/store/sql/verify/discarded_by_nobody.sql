-- G7: a delivery was discarded, and it is not recorded by whom, or it was done to another DAG.
select y.event_id as event, d.dag_id, y.reason, y.intervention_id as intervention, i.dag_id as intervention_dag
from delivery y
left join intervention i on i.id = y.intervention_id
left join dag d on d.id = y.dag_id
where y.disposition = 'discarded' and i.dag_id is distinct from y.dag_id
  and (y.intervention_id is not null
       or not exists (select 1 from quarantine q where q.event_id = y.event_id and q.same_as is not null))
order by y.event_id limit $1
