-- G1: an asset has one identity for each event it ever had, two for those that were mended, but for what was forgotten in time.
select a.name as asset, a.seq, a.forgotten, a.mended, coalesce(c.identities, 0) as identities
from asset a left join (select asset_id, count(*) as identities from change_key group by 1) c on c.asset_id = a.id
where coalesce(c.identities, 0) + a.forgotten <> a.seq + a.mended
order by 1 limit $1
