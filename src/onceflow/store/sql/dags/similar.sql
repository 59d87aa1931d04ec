-- dag_ids for the hint of a message, those that share a beginning first. $1 what was asked for, $2 how many.
select dag_id from dag where active order by not starts_with(dag_id, left($1, 3)), dag_id limit $2
