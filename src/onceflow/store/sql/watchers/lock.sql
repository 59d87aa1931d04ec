-- Locks, by id, the watchers of the assets with these names and those that file $2 declares. A registration does this
-- before it locks the assets, because an owner that records has its watcher first and then wants the asset.
select w.id from watcher w
where w.asset_id in (select a.id from asset a where a.name = any ($1::text[]))
   or w.id in (select x.watcher_id from watcher_declaration x where x.file_id = $2)
order by w.id for no key update
