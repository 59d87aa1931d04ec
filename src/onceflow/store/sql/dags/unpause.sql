-- $1 dag_id, $2 what becomes of what waits: each, join, discard; $3 by whom (JSON), $4 why.
select active, was_paused, in_storm, deliveries from resume_dag($1, $2, $3, $4, $5)
