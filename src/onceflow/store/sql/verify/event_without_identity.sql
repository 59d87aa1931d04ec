-- G1: every event holds the change key of its identity on its asset.
select e.id as event, e.asset_id, e.hash, c.event_id as held_by
from event e left join change_key c on c.asset_id = e.asset_id and c.hash = e.hash
where c.event_id is distinct from e.id
order by 1 limit $1
