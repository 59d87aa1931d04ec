-- Locks, by id, the watchers that feed the assets with these names, those that file $2 declares, and those with these
-- definitions. A registration does this before it locks the assets, because an owner that records has its watcher first and
-- then wants the assets.
select w.id from watcher w
where w.id in (
  select x.watcher_id from asset a join watch x on x.asset_id = a.id where a.name = any ($1::text[])
  union select x.watcher_id from watch_declaration d join watch x on (x.asset_id, x.name) = (d.asset_id, d.name) where d.file_id = $2
  union select o.id from watcher o where o.definition = any ($3::text[]))
order by w.id for no key update
