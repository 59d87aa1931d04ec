with gone as (
  delete from asset_declaration x where x.file_id = $1 and x.asset_id <> all ($2::bigint[])
)
insert into asset_declaration (file_id, asset_id, uri, place, rules, entrance)
select $1, u.id, u.uri, u.place, u.rules::jsonb, u.entrance
from unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::boolean[]) as u (id, uri, place, rules, entrance)
on conflict (file_id, asset_id) do update
set uri = excluded.uri, place = excluded.place, rules = excluded.rules, entrance = excluded.entrance
