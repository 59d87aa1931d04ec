with gone as (
  delete from asset_declaration x where x.file_id = $1 and x.asset_id <> all ($2::bigint[])
)
insert into asset_declaration (file_id, asset_id, uri, place)
select $1, u.id, u.uri, u.place from unnest($2::bigint[], $3::text[], $4::text[]) as u (id, uri, place)
on conflict (file_id, asset_id) do update set uri = excluded.uri, place = excluded.place
