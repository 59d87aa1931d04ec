-- The latest events of an asset, oldest first.
select * from (
  select e.id, a.name as asset, a.uri, e.key, e.extra, e.created_at, e.source, e.seq
  from event e join asset a on a.id = e.asset_id where a.name = $1 order by e.seq desc limit $2
) latest order by seq
