select task, run, state from rescue_tasks($1, $2, $3, $4)
