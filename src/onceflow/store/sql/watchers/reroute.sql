-- The assets of the watchers $1 changed, and with $2 what their guests have loaded. One that feeds none is not declared.
update watcher w
set routing = w.routing + 1, active = f.feeds, active_since = case when w.active = f.feeds then w.active_since else clock_timestamp() end,
    generation = w.generation + case when w.id = any ($2::bigint[]) then 1 else 0 end
from (select i as id, exists (select 1 from watch x where x.watcher_id = i and x.active) as feeds from unnest($1::bigint[]) i) f
where w.id = f.id
