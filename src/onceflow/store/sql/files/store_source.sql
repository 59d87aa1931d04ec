insert into source (hash, content) values ($1, $2) on conflict do nothing
