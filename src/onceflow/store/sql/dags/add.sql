insert into dag (dag_id, file_id, paused, schedule_kind, max_active_runs) values ($1, $2, false, $3, $4)
on conflict (dag_id) do nothing returning id, created_at
