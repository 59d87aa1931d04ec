insert into dag_file (bundle, path) values ($1, $2)
on conflict (bundle, path) do update set path = excluded.path returning id, path, source_hash, term, present, failure
