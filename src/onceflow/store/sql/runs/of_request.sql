-- The runs that a request for a replay made, with their events, and what was noted of it. $1 dag, $2 request.
select r.id, r.run_id, i.details, c.explanation,
       array(select m.event_id from run_member m where m.run_id = r.id order by m.event_id) as events
from intervention i join run r on r.dag_id = i.dag_id and r.intervention_id = i.id left join decision c on c.id = r.decision_id
where i.request = $2 and i.dag_id = $1 order by r.id
