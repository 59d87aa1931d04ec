-- $1 dag_id, $2 each, join, slowly or discard; $3 events a minute, $4 by whom (JSON), $5 why, $6 now.
select active, paused, storm, deliveries from release_storm($1, $2, $3, $4, $5, $6)
