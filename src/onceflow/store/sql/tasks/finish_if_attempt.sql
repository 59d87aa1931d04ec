select n, status from finish_attempts($1, $2, $3, $4, $5::text[]::task_state[], $6::text[]::outcome[], $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
