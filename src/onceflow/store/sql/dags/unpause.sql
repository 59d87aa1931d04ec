-- Lets a consumer run again, under its lock; what was held for it is released by the next statement. $1 dag_id.
update dag set paused = false where dag_id = $1 returning id, active
