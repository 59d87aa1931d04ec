select pg_notify(topic, $2) from unnest($1::text[]) as topic
