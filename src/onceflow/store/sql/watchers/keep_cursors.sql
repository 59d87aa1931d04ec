-- A watch whose author wants it gets, with other arguments, the cursor that it had with the old ones.
update watcher n set cursor = k.cursor
from (
  select distinct on (n.id) n.id, o.cursor
  from unnest($1::bigint[], $2::text[], $3::text[]) as u (asset, name, definition)
  join watch x on x.asset_id = u.asset and x.name = u.name
  join watcher o on o.id = x.watcher_id
  join watcher n on n.definition = u.definition and n.id <> o.id
  where not n.active and n.mode = 'single' and o.cursor is not null
  order by n.id, o.last_event_at desc nulls last, o.id
) k where n.id = k.id
