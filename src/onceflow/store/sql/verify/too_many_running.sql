-- More runs of a DAG are running than max_active_runs allows; a cap lowered since the oldest of them began does not count.
select d.dag_id, r.running, greatest(d.max_active_runs, r.allowed) as allowed
from (
  select r.dag_id, count(*) as running, max((substring(v.spec::text from '"max_active_runs": ?(\d+)'))::int) as allowed
  from run r left join dag_version v on v.id = r.version_id where r.state = 'running' group by 1
) r
join dag d on d.id = r.dag_id
where r.running > greatest(d.max_active_runs, r.allowed)
order by 1 limit $1
