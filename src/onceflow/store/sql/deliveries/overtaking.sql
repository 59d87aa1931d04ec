-- Of events that wait, each the newest of its asset, those of which a newer one is in a run of the consumer, with that
-- one. $1 dags, $2 events.
select u.dag, c.asset_id, u.event, n.event_id as newer
from unnest($1::bigint[], $2::bigint[]) as u (dag, event)
join event c on c.id = u.event
cross join lateral (
  select y.event_id from event e join delivery y on y.event_id = e.id and y.dag_id = u.dag
  where e.asset_id = c.asset_id and e.seq > c.seq and y.disposition in ('started', 'joined')
  order by e.seq desc limit 1
) n
