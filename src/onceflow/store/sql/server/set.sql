-- Settings for the session, or with $3 for this transaction alone: behind a pooler by transactions the session is somebody
-- else's afterwards.
select set_config(u.name, u.value, $3) from unnest($1::text[], $2::text[]) as u (name, value)
