select expire_runs($1, $2) as id
