with owned as (
  select t.run_id, t.task_id, t.map_index, t.attempt from task t
  where t.id = $1 and t.token = $2 and t.state = 'running' for no key update
)
insert into xcom as x (run_id, task_id, map_index, key, value, attempt)
select o.run_id, o.task_id, o.map_index, $3, $4::json, o.attempt from owned o
on conflict (run_id, task_id, map_index, key) do update
set value = excluded.value, attempt = excluded.attempt, stored_at = clock_timestamp() returning x.key
