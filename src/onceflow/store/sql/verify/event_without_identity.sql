-- G1: every event holds the change key of its identity on its asset, and of its payload if that stood in for its key.
select e.id as event, e.asset_id, e.hash, c.event_id as held_by
from event e left join change_key c on c.asset_id = e.asset_id and c.hash = e.hash
where c.event_id is distinct from e.id
union all
select e.id, e.asset_id, q.stand_in, c.event_id
from quarantine q join event e on e.id = q.event_id
left join change_key c on c.asset_id = e.asset_id and c.hash = q.stand_in
where q.stand_in is not null and c.event_id is distinct from e.id
order by 1 limit $1
