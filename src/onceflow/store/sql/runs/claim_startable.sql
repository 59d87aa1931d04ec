select run, dag, version from claim_startable_runs($1, $2)
