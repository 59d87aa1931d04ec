select advance_tasks($1, $2::text[]::task_state[], $3::text[]::task_state[], $4, $5, $6::text[]::run_state[], $7)
