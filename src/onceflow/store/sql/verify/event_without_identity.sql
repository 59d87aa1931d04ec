-- G1: every event holds one change key of its asset, and every change key is held by an event.
select e.id as event, c.event_id as held_by, coalesce(e.asset_id, c.asset_id) as asset_id, c.hash
from event e full join change_key c on c.event_id = e.id and c.asset_id = e.asset_id
where e.id is null or c.event_id is null
order by 1, 2 limit $1
