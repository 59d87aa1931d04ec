-- The longest time, in seconds, from an event to the run that it started, of consumers that make a run for each.
select max(extract(epoch from r.created_at - e.created_at))::float8 from run r
join event e on e.id = r.start_event
join dag d on d.id = r.dag_id
where d.schedule_kind = 'asset:each'
