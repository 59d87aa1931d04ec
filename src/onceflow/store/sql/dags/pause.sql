-- $1 dag_id, $2 by whom (JSON), $3 why.
select active, while_paused from pause_dag($1, $2, $3, $4)
