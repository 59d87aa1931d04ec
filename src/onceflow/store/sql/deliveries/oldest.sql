-- Those of a consumer's judged deliveries that wait the longest, in order. $1 dag, $2 limit.
select x.event_id as event, (select a.name from asset a where a.id = x.asset_id) as asset,
       (select e.created_at from event e where e.id = x.event_id) as at
from (select distinct s.asset_id from subscription s where s.dag_id = $1) s
cross join lateral (
  select y.event_id, y.asset_id from delivery y
  where y.dag_id = $1 and y.disposition = 'pending' and y.judged and y.asset_id = s.asset_id
  order by y.event_id limit $2
) x
order by x.event_id limit $2
