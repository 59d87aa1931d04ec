-- Why these assets (name, uri) may not be declared by file $1: another asset or file says otherwise. What the files with the
-- paths $4 say of the URI of the same asset is about to be replaced.
select u.name, u.uri, a.name as other_name, a.uri as other_uri, coalesce(
    (select f.path || ' (' || x.place || ')' from asset_declaration x join dag_file f on f.id = x.file_id
     where x.asset_id = a.id and x.file_id <> $1 and (a.name <> u.name or x.uri <> '' and x.uri <> u.uri) limit 1), '') as other_place
from unnest($2::text[], $3::text[]) as u (name, uri)
cross join lateral (
  select o.id, o.name, o.uri from asset o where o.active and o.uri <> '' and o.uri = u.uri and o.name <> u.name
  union all
  select o.id, o.name, o.uri from asset o where o.active and o.uri <> '' and o.uri = u.name and o.name <> u.name
  union all
  select o.id, o.name, o.uri from asset o where o.active and u.uri <> '' and o.name = u.uri and o.name <> u.name
  union all
  select o.id, o.name, o.uri from asset o where o.active and u.uri <> '' and o.name = u.name and exists (
    select 1 from asset_declaration x join dag_file f on f.id = x.file_id and f.path <> all ($4::text[])
    where x.asset_id = o.id and x.file_id <> $1 and x.uri <> '' and x.uri <> u.uri)
) a
where exists (select 1 from asset_declaration x where x.asset_id = a.id and x.file_id <> $1)
limit 1
