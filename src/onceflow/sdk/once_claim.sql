-- Whoever inserts the row does the effect, and commits both together. A second attempt waits for the first one's end.
insert into onceflow_effect (id, dag_id, run_id, task_id, map_index, name, attempt, fence_token)
values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (id) do nothing returning id
