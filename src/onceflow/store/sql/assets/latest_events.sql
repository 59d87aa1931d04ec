-- The latest events of an asset, oldest first. $1 asset, $2 limit or null.
select l.id, a.name as asset, a.uri, l.key, l.extra, l.created_at, l.source, l.seq
from asset a
cross join lateral (
  select e.id, e.key, e.extra, e.created_at, e.source, e.seq from event e where e.asset_id = a.id order by e.seq desc limit $2
) l
where a.name = $1 order by l.seq
