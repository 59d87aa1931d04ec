-- Takes watchers that nobody owns or, with $3, whose owner is not ready any more; raises the term and reads the cursor from
-- the row it locked. There are few owners, and the index finds each of them once. (A clock in a subselect can be looked up
-- in an index.)
with recursive owners as (
  (select w.owner from watcher w where $3 and w.owner is not null order by w.owner limit 1)
  union all
  select (select w.owner from watcher w where w.owner > o.owner order by w.owner limit 1) from owners o where o.owner is not null
), gone as materialized (
  select o.owner from owners o
  where o.owner is not null and not exists (
    select 1 from process p where p.id = o.owner and p.state = 'running' and p.ready_until > clock_timestamp())
), free as materialized (
  select w.id from watcher w
  where w.active and w.mode = 'single' and w.owner is null and w.next_try_at <= (select clock_timestamp())
  order by w.next_try_at, w.id limit $2 for no key update skip locked
), abandoned as materialized (
  select o.id from gone g cross join lateral (
    select w.id from watcher w where w.owner = g.owner and w.active and w.next_try_at <= clock_timestamp()
    limit $2 for no key update skip locked
  ) o limit $2 - (select count(*) from free)
)
update watcher w set owner = $1, term = w.term + 1, batch = 0, claimed_at = clock_timestamp(), claimed_generation = w.generation
where w.id = any (array(select id from free union all select id from abandoned))
  and (w.owner is null or w.owner = any (array(select owner from gone)))
returning w.id, w.mode, w.term, w.generation, w.classpath, w.kwargs, w.file, w.code, w.cursor, w.strikes, w.silent_after, w.max_events_per_minute, w.canary
