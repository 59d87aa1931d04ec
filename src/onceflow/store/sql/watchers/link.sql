with wanted as (
  select w.id, u.definition, u.place from unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) as u (asset, name, definition, place)
  join watcher w on w.asset_id = u.asset and w.name = u.name
), gone as (
  delete from watcher_declaration x where x.file_id = $1 and x.watcher_id not in (select id from wanted) returning x.watcher_id
), added as (
  insert into watcher_declaration (file_id, watcher_id, definition, place) select $1, id, definition, place from wanted
  on conflict (file_id, watcher_id) do update set definition = excluded.definition, place = excluded.place
)
select watcher_id from gone
