select run, dag, version, state::text, task, task_id, task_state, settled, due from claim_tasks_of_runs($1, $2)
