select create_timed_runs($1, $2, $3, $4) as id
