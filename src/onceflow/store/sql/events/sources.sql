-- Who told of these events. $1 ids.
select id, source from event where id = any ($1::bigint[])
