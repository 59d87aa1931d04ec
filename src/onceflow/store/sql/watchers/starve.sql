-- Watches that no file declares any more are over. Returns the watchers whose assets changed.
update watch x set active = false from unnest($1::bigint[], $2::text[]) as u (asset, name)
where x.asset_id = u.asset and x.name = u.name and x.active
  and not exists (select 1 from watch_declaration d where d.asset_id = u.asset and d.name = u.name)
returning x.watcher_id
