with wanted as materialized (
  select u.asset, u.name, u.definition, u.place from unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) as u (asset, name, definition, place)
), gone as (
  delete from watch_declaration d where d.file_id = $1 and (d.asset_id, d.name) not in (select asset, name from wanted)
)
insert into watch_declaration (file_id, asset_id, name, definition, place) select $1, asset, name, definition, place from wanted
on conflict (file_id, asset_id, name) do update set definition = excluded.definition, place = excluded.place
