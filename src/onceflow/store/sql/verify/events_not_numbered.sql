-- G1: an asset's events are numbered 1, 2, 3 … up to the number in its row; those that are missing were pruned.
select a.name as asset, a.seq, a.pruned, count(e.id) as events, min(e.seq) as first, max(e.seq) as last
from asset a left join event e on e.asset_id = a.id
group by a.id, a.name, a.seq, a.pruned
having count(e.id) + a.pruned <> a.seq or coalesce(max(e.seq), 0) > a.seq or coalesce(min(e.seq), 1) < 1
order by 1 limit $1
