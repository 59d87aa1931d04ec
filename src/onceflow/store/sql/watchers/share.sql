-- How many watchers there are to be shared, whether some are free for me, and how many triggerers share them. $1: may those of
-- owners that are not ready be taken over? $2 me.
with recursive owners as (
  (select w.owner from watcher w where $1 and w.owner is not null order by w.owner limit 1)
  union all
  select (select w.owner from watcher w where w.owner > o.owner order by w.owner limit 1) from owners o where o.owner is not null
)
select (select count(*) from watcher where active and mode = 'single') as active,
  exists (select 1 from watcher where active and mode = 'single' and owner is null and next_try_at <= (select clock_timestamp()))
    or exists (
      select 1 from owners o where o.owner is not null and not exists (
        select 1 from process p where p.id = o.owner and p.state = 'running' and p.ready_until > clock_timestamp())) as free,
  exists (
    select 1 from watcher w where w.active and w.mode = 'all' and w.storm_at is null and not exists (
      select 1 from watching g where g.watcher_id = w.id and g.owner = $2
        and (g.running or g.generation = w.generation and g.next_try_at > clock_timestamp()))) as to_join,
  (select count(*) from process where kind = 'triggerer' and state = 'running' and ready_until > clock_timestamp()) as triggerers
