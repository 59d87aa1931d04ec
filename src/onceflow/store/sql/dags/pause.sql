-- Pauses a consumer, under its lock: its events are held from now on, its runs stay queued. $1 dag_id.
update dag set paused = true where dag_id = $1 returning id, active
