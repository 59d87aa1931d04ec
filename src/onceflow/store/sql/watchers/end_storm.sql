-- Lets watchers of an asset that are in a storm go on from their cursors, with the record of who and why. $1 asset (name or URI),
-- $2 name of the watcher or null = all, $3 by whom (JSON), $4 why. Returns their ids and names, and how many there are at all.
with named as materialized (
  select w.id, x.name, w.storm is not null as stormy from asset a join watch x on x.asset_id = a.id join watcher w on w.id = x.watcher_id
  where (a.name = $1 or (a.uri = $1 and $1 <> '')) and ($2::text is null or x.name = $2) and x.active
), locked as materialized (
  select w.id from watcher w where w.id in (select n.id from named n where n.stormy) order by w.id for no key update
), ended as (
  update watcher w set next_try_at = '-infinity', storm = null, storm_at = null from locked l where w.id = l.id and w.storm is not null
  returning w.id
), told as (
  insert into intervention (watcher_id, kind, pending, by, reason) select e.id, 'release', 'each', $3::json, $4 from ended e
)
select n.id, n.name, exists (select 1 from ended e where e.id = n.id) as ended from named n order by n.name
