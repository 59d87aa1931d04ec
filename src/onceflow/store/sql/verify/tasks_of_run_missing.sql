-- A run that has started has other than the tasks of its version.
select d.dag_id, r.run_id, x.declared, coalesce(s.tasks, 0) as stored
from run r
join dag d on d.id = r.dag_id
join (select v.id, json_array_length(v.spec -> 'tasks') as declared from dag_version v) x on x.id = r.version_id
left join (select t.run_id, count(distinct t.task_no) as tasks from task t group by t.run_id) s on s.run_id = r.id
where r.state <> 'queued' and coalesce(s.tasks, 0) <> x.declared
order by r.id limit $1
