-- Whether another file says something else about one of these watches. What the files $5 say counts for nothing: they changed
-- and are about to be read again.
select u.name, f.path, d.place from unnest($2::bigint[], $3::text[], $4::text[]) as u (asset, name, definition)
join watch_declaration d on d.asset_id = u.asset and d.name = u.name and d.file_id <> $1 and d.definition <> u.definition
join dag_file f on f.id = d.file_id and f.path <> all ($5::text[]) limit 1
