select create_continuous_runs($1, $2, $3) as id
