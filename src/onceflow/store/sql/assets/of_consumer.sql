-- The assets that a DAG is subscribed to: their last event, and since a time how many events and how many sightings of
-- changes that were known already. $1 dag, $2 since.
select a.name as asset, l.id as last_event, l.created_at as last_event_at,
       (select count(*) from event e where e.asset_id = a.id and e.created_at >= $2) as events,
       (select count(*) from witness w join event e on e.id = w.event_id where e.asset_id = a.id and w.seen_at >= $2) as witnesses
from subscription s
join asset a on a.id = s.asset_id
left join lateral (
  select e.id, e.created_at from event e where e.asset_id = a.id and e.seq <= a.seq order by e.seq desc limit 1
) l on true
where s.dag_id = $1 and (s.until_seq is null or s.catching_up) order by a.name
