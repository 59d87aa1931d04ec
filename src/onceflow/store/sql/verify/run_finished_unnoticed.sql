-- Every task of a running run is finished and its consequences are drawn, yet the run is not finished.
select d.dag_id, r.run_id, count(*) as tasks
from run r
join dag d on d.id = r.dag_id
join task t on t.run_id = r.id
where r.state = 'running'
group by r.id, d.dag_id, r.run_id
having bool_and(t.state in ('success', 'failed', 'skipped', 'upstream_failed', 'removed') and t.settled)
order by r.id limit $1
