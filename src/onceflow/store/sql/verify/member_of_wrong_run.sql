-- An event is put beside the deliveries into a run that is neither a rerun nor a replay.
select d.dag_id, r.run_id, r.run_type, m.event_id as event
from run_member m join run r on r.id = m.run_id join dag d on d.id = r.dag_id
where r.run_type not in ('rerun', 'replay')
order by r.id, m.event_id limit $1
