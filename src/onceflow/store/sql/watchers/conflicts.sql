select u.name, f.path, x.place from unnest($2::bigint[], $3::text[], $4::text[]) as u (asset, name, definition)
join watcher w on w.asset_id = u.asset and w.name = u.name
join watcher_declaration x on x.watcher_id = w.id and x.file_id <> $1 and x.definition <> u.definition
join dag_file f on f.id = x.file_id limit 1
