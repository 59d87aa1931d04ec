-- Those of these watchers that somebody other than $2 (null: anybody) owns, and that have looked at their source since $3. $1 ids.
select w.id from watcher w
where w.id = any ($1::bigint[]) and w.owner is not null and w.owner is distinct from $2::uuid and w.last_observation > $3
