-- Adds or changes watchers; an unchanged definition touches nothing, a changed one starts anew, without its old cursor.
insert into watcher as w (asset_id, name, mode, classpath, kwargs, file, definition)
select u.asset, u.name, u.mode, u.classpath, u.kwargs::json, u.file, u.definition
from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
  as u (asset, name, mode, classpath, kwargs, file, definition)
order by u.asset, u.name
on conflict (asset_id, name) do update
set active = true, mode = excluded.mode, classpath = excluded.classpath, kwargs = excluded.kwargs, file = excluded.file,
    cursor = case when w.definition = excluded.definition then w.cursor end,
    generation = w.generation + case when w.definition = excluded.definition then 0 else 1 end,
    strikes = case when w.definition = excluded.definition then w.strikes else 0 end,
    next_try_at = case when w.definition = excluded.definition then w.next_try_at else '-infinity' end,
    definition = excluded.definition
where not w.active or w.definition <> excluded.definition or w.file <> excluded.file
