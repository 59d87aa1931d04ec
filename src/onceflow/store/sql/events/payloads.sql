select id, extra from event where id = any ($1::bigint[])
