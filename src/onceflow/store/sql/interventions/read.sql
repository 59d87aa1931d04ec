select id, kind, pending, by, reason, made_at from intervention where id = any ($1::bigint[])
