-- What an event of a task came from: through which DAGs, how often. $1 event.
select coalesce(json_object_agg(coalesce(d.dag_id, k.dag), k.n), '{}') as rounds
from cause c cross join lateral jsonb_each_text(c.rounds) k (dag, n) left join dag d on d.id = k.dag::bigint
where c.event_id = $1
