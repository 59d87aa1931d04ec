-- Judges synthetic changes whose assets' consumers have judged all that was stored before: a change in its place would have been
-- judged by now. `open`: another one waits.
with judged as (
  update canary c
  set judged_at = clock_timestamp(), delay = extract(epoch from clock_timestamp() - c.made_at)
  where c.judged_at is null and not exists (
    select 1 from watch x join asset a on a.id = x.asset_id cross join lateral unnest(a.subscribers) as s (dag)
    join dag d on d.id = s.dag and d.active
    join delivery y on y.dag_id = s.dag and y.asset_id = a.id and y.disposition = 'pending' and not y.judged
    join event e on e.id = y.event_id
    where x.watcher_id = c.watcher_id and x.active and e.created_at <= c.stored_at)
  returning c.watcher_id
)
select (select count(*) from judged) as judged,
  exists (select 1 from canary c where c.judged_at is null and c.watcher_id not in (select watcher_id from judged)) as open
