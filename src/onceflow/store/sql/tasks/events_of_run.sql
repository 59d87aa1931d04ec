-- The events that triggered a run, in commit order.
select e.id, a.name as asset, a.uri, e.key, e.extra, e.created_at, e.source
from delivery y join event e on e.id = y.event_id join asset a on a.id = e.asset_id where y.run_id = $1 order by e.id
