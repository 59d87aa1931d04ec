-- Locks an active DAG. $1 dag_id.
select id, version_id, paused from dag where dag_id = $1 and active for no key update
