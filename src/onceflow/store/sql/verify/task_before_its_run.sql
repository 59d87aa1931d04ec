-- A queued run has tasks already; their rows are written when it starts.
select d.dag_id, r.run_id, count(*) as tasks
from run r join dag d on d.id = r.dag_id join task t on t.run_id = r.id
where r.state = 'queued'
group by r.id, d.dag_id, r.run_id
order by r.id limit $1
