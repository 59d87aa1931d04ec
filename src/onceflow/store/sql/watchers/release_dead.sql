with held as materialized (
  select w.id from watcher w where w.owner = any ($1::uuid[]) order by w.id for no key update
), shared as (
  delete from watching g where g.owner = any ($1::uuid[])
)
update watcher w set owner = null, released_at = clock_timestamp() from held h where w.id = h.id
