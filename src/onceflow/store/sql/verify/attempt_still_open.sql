-- G6: an attempt has no outcome, though its task is not running it (any more).
select d.dag_id, r.run_id, t.task_id, t.map_index, t.state, t.attempt, a.number
from attempt a
join task t on t.id = a.task_id
join run r on r.id = t.run_id
join dag d on d.id = r.dag_id
where a.outcome is null and (t.state <> 'running' or a.number <> t.attempt or a.token is distinct from t.token)
order by t.id, a.number limit $1
