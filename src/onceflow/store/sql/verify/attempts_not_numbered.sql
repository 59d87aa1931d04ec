-- G6: a task's attempts are numbered 1, 2, 3 … up to the number in its row.
select d.dag_id, r.run_id, t.task_id, t.map_index, t.attempt, a.attempts, a.last
from task t
join run r on r.id = t.run_id
join dag d on d.id = r.dag_id
left join (select task_id, count(*) as attempts, max(number) as last from attempt group by 1) a on a.task_id = t.id
where coalesce(a.attempts, 0) <> t.attempt or coalesce(a.last, 0) <> t.attempt
order by t.id limit $1
