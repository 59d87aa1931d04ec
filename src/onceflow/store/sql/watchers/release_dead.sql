with held as materialized (
  select w.id from watcher w where w.owner = any ($1::uuid[]) order by w.id for no key update
)
update watcher w set owner = null, lease_until = null from held h where w.id = h.id
