-- The assets that these watchers feed, each with its match and key, and the number that says which assets these are.
select w.id, w.routing, a.id as asset_id, a.name as asset, x.name, x.match, x.key, x.key_file
from watcher w left join watch x on x.watcher_id = w.id and x.active left join asset a on a.id = x.asset_id
where w.id = any ($1::bigint[]) order by w.id, a.id, x.name
