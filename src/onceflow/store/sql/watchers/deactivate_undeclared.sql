update watcher w set active = false where w.id = any ($1::bigint[]) and w.active
  and not exists (select 1 from watcher_declaration x where x.watcher_id = w.id)
