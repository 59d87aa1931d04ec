-- Takes watchers that nobody owns or, with $4, whose owner's lease ran out; raises the term and reads the cursor from the
-- row it locked. (A clock in a subselect can be looked up in an index.)
with free as materialized (
  select w.id from watcher w
  where w.active and w.owner is null and w.next_try_at <= (select clock_timestamp())
  order by w.next_try_at, w.id limit $2 for no key update skip locked
), abandoned as materialized (
  select w.id from watcher w
  where $4 and w.active and w.owner is not null and w.lease_until < (select clock_timestamp())
    and w.next_try_at <= clock_timestamp()
  order by w.lease_until, w.id limit $2 - (select count(*) from free) for no key update skip locked
)
update watcher w set owner = $1, term = w.term + 1, batch = 0, claimed_at = clock_timestamp(), claimed_generation = w.generation,
  lease_until = clock_timestamp() + make_interval(secs => $3)
where w.id = any (array(select id from free union all select id from abandoned))
  and (w.owner is null or $4 and w.lease_until < clock_timestamp())
returning w.id, w.term, w.generation, (select a.name from asset a where a.id = w.asset_id) as asset, w.name, w.classpath, w.kwargs, w.file, w.key, w.key_file, w.cursor, w.strikes
