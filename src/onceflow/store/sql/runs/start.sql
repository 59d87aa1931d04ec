select start_runs($1, $2, $3, $4, $5, $6::text[]::task_state[], $7, $8, $9, $10)
