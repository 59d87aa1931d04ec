-- What is stored of an event's causes leaves out the DAG whose run made it, so that a loop would not be noticed.
select c.event_id as event, d.dag_id, r.run_id, c.rounds::text as rounds
from cause c join run r on r.id = c.run_id join dag d on d.id = r.dag_id
where coalesce((c.rounds ->> r.dag_id::text)::int, 0) < 1
order by c.event_id limit $1
