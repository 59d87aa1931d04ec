update watcher w set owner = null, lease_until = null from unnest($2::bigint[], $3::bigint[]) as u (id, term)
where w.id = u.id and w.owner = $1 and w.term = u.term
