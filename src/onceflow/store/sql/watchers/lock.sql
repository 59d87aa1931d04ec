-- Locks, by id, the watchers of the assets with these names and those that file $2 declares. A registration does this
-- before it locks the assets, because an owner that records has its watcher first and then wants the asset.
select w.id from watcher w
where w.id in (
  select o.id from asset a join watcher o on o.asset_id = a.id where a.name = any ($1::text[])
  union select x.watcher_id from watcher_declaration x where x.file_id = $2)
order by w.id for no key update
