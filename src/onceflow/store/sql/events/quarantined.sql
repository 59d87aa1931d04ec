-- The events of an asset that are in quarantine, in the order of commit. $1 asset.
select e.id from quarantine q join event e on e.id = q.event_id
where q.released_at is null and e.asset_id = $1 order by e.seq
