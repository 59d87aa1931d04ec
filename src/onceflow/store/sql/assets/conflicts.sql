-- Why these assets (name, uri) may not be declared by file $1: another asset or file says otherwise.
select u.name, u.uri, a.name as other_name, a.uri as other_uri, coalesce(
    (select f.path || ' (' || x.place || ')' from asset_declaration x join dag_file f on f.id = x.file_id
     where x.asset_id = a.id and x.file_id <> $1 and (a.name <> u.name or x.uri <> '' and x.uri <> u.uri) limit 1), '') as other_place
from unnest($2::text[], $3::text[]) as u (name, uri)
join asset a on a.active and (
  (u.uri <> '' and a.uri = u.uri and a.name <> u.name)
  or (a.uri = u.name and a.name <> u.name)
  or (u.uri <> '' and a.name = u.uri and a.name <> u.name)
  or (a.name = u.name and u.uri <> '' and exists (
        select 1 from asset_declaration x where x.asset_id = a.id and x.file_id <> $1 and x.uri <> '' and x.uri <> u.uri)))
where exists (select 1 from asset_declaration x where x.asset_id = a.id and x.file_id <> $1)
limit 1
