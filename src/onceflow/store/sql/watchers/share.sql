-- How many watchers there are, how many of them are free for me, and how many triggerers share them.
select (select count(*) from watcher where active) as active,
  exists (select 1 from watcher where active and owner is null and next_try_at <= (select clock_timestamp()))
    or $1 and exists (
      select 1 from watcher where active and owner is not null and lease_until < (select clock_timestamp())) as free,
  (select count(*) from process where kind = 'triggerer' and state = 'running' and lease_until > clock_timestamp()) as triggerers
