with held as materialized (
  select t.id from task t where t.state = 'running' and t.owner = any ($1::uuid[]) order by t.id for no key update
)
update task t set lease_until = '-infinity' from held h where t.id = h.id
