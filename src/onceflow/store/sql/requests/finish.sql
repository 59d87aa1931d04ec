-- Keeps the answer to a request; of several that were given at once the first one stays, and is returned.
insert into request as r (hash, body, status, answer) values ($1, $2, $3, $4)
on conflict (hash) do update set status = coalesce(r.status, excluded.status), answer = coalesce(r.answer, excluded.answer)
returning r.status, r.answer
