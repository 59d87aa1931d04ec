-- The events that triggered a run, in commit order.
select e.id, a.name as asset, a.uri, e.key, e.extra, e.created_at, e.source
from (select y.event_id from delivery y where y.run_id = $1
      union all select m.event_id from run_member m where m.run_id = $1) x
join event e on e.id = x.event_id join asset a on a.id = e.asset_id order by e.id
