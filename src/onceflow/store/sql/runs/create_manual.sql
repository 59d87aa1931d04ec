-- $1 dag_id, $2 conf, $3 logical date, $4 by whom (JSON), $6 request. No row when there is no such active DAG.
select id, run_id, paused from create_manual_run($1, $2, $3, $4, p_now => $5, p_request => $6)
