insert into dag (dag_id, file_id, paused, schedule_kind, max_active_runs) values ($1, $2, $3, $4, $5)
on conflict (dag_id) do nothing returning id, created_at
