-- Notes which watchers looked at their source successfully; those no longer the owner's are left alone.
with held as materialized (
  select w.id from unnest($2::bigint[], $3::bigint[]) as u (id, term)
  join watcher w on w.id = u.id and w.owner = $1 and w.term = u.term order by w.id for no key update of w
), shared as (
  update watching g set last_observation = clock_timestamp(),
    strikes = case when forgiven(g.claimed_at, g.strikes) then 0 else g.strikes end,
    last_error = case when forgiven(g.claimed_at, g.strikes) then null else g.last_error end
  from unnest($2::bigint[], $3::bigint[]) as u (id, term)
  where g.watcher_id = u.id and g.owner = $1 and g.term = u.term and g.running
)
update watcher w set last_observation = clock_timestamp(),
  strikes = case when forgiven(w.claimed_at, w.strikes) then 0 else w.strikes end,
  last_error = case when forgiven(w.claimed_at, w.strikes) then null else w.last_error end
from held h where w.id = h.id
