-- Takes watchers that nobody owns or, with $4, whose owner's lease ran out; raises the term and reads the cursor from the
-- row it locked.
with chosen as materialized (
  select w.id from watcher w
  where w.active and w.next_try_at <= clock_timestamp()
    and (w.owner is null or $4 and w.lease_until < clock_timestamp())
  order by w.next_try_at, w.id limit $2 for no key update skip locked
)
update watcher w set owner = $1, term = w.term + 1, claimed_at = clock_timestamp(), claimed_generation = w.generation,
  lease_until = clock_timestamp() + make_interval(secs => $3)
from chosen c, asset a
where w.id = c.id and a.id = w.asset_id and (w.owner is null or $4 and w.lease_until < clock_timestamp())
returning w.id, w.term, w.generation, a.name as asset, w.name, w.classpath, w.kwargs, w.file, w.cursor, w.strikes
