with held as materialized (
  select w.id from unnest($2::bigint[], $3::bigint[]) as u (id, term)
  join watcher w on w.id = u.id and w.owner = $1 and w.term = u.term order by w.id for no key update of w
)
update watcher w set owner = null, lease_until = null from held h where w.id = h.id
