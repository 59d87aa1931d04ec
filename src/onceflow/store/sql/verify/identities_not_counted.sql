-- G1: an asset has one identity for each event it ever had, but for those that were forgotten when their time was over.
select a.name as asset, a.seq, a.forgotten, coalesce(c.identities, 0) as identities
from asset a left join (select asset_id, count(*) as identities from change_key group by 1) c on c.asset_id = a.id
where coalesce(c.identities, 0) + a.forgotten <> a.seq
order by 1 limit $1
