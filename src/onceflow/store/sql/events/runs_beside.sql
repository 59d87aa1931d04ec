-- The runs, in lanes of their own, that people made of an event. $1 event.
select d.dag_id, r.run_id, r.run_type, r.state as run_state, r.created_at, r.created_by, r.downstream, i.reason
from run_member m join run r on r.id = m.run_id join dag d on d.id = r.dag_id
join intervention i on i.id = r.intervention_id
where m.event_id = $1 order by r.id
