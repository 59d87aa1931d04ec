-- A request under its Idempotency-Key: what is known of it, which is nothing but its body if it is new. $1 hash of where
-- it goes and of its key, $2 hash of its body.
insert into request as r (hash, body) values ($1, $2)
on conflict (hash) do update set hash = r.hash returning r.body, r.status, r.answer
