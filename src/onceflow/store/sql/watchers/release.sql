with held as materialized (
  select w.id from unnest($2::bigint[], $3::bigint[]) as u (id, term)
  join watcher w on w.id = u.id and w.owner = $1 and w.term = u.term order by w.id for no key update of w
), shared as (
  delete from watching g using unnest($2::bigint[], $3::bigint[]) as u (id, term)
  where g.watcher_id = u.id and g.owner = $1 and g.term = u.term
)
update watcher w set owner = null, released_at = clock_timestamp() from held h where w.id = h.id
