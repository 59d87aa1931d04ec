select task, run, state::text from rescue_tasks($1, $2, $3, $4)
