-- G1: two events of an asset carry the same key.
select a.name as asset, e.key, count(*) as events, array_agg(e.id order by e.id) as event_ids
from event e join asset a on a.id = e.asset_id
where e.key is not null
group by a.name, e.key having count(*) > 1
order by 1, 2 limit $1
