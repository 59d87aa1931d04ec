-- $1 dag_id, $2 run_id, $3 what becomes of its events: emit, hold, tag; $4 by whom (JSON), $5 why, $6 request, $7 now. No row when there
-- is no such run of an active DAG; no run when some of its events are gone.
select id, run_id, paused, gone, left_ from rerun($1, $2, $3, $4, $5, $6, $7)
