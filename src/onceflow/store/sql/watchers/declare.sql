-- Adds or changes watchers. An unchanged one is not touched; a changed definition starts anew without its old cursor, mere
-- changes of code start it again from its cursor.
insert into watcher as w (asset_id, name, mode, classpath, kwargs, file, definition, code, key, key_file)
select u.asset, u.name, u.mode, u.classpath, u.kwargs::json, u.file, u.definition, u.code, u.key::jsonb, u.key_file
from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
  as u (asset, name, mode, classpath, kwargs, file, definition, code, key, key_file)
order by u.asset, u.name
on conflict (asset_id, name) do update
set active = true, mode = excluded.mode, classpath = excluded.classpath, kwargs = excluded.kwargs, file = excluded.file,
    cursor = case when w.definition = excluded.definition then w.cursor end,
    generation = w.generation + case when (w.definition, w.code) = (excluded.definition, excluded.code) then 0 else 1 end,
    strikes = case when (w.definition, w.code) = (excluded.definition, excluded.code) then w.strikes else 0 end,
    next_try_at = case when (w.definition, w.code) = (excluded.definition, excluded.code) then w.next_try_at else '-infinity' end,
    definition = excluded.definition, code = excluded.code, key = excluded.key, key_file = excluded.key_file
where not w.active or (w.definition, w.code, w.file) <> (excluded.definition, excluded.code, excluded.file)
