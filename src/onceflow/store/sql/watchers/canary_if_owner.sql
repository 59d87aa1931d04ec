-- Stores a watcher's synthetic change, if it is still run by $1 with term $3. $4 and $5: how many seconds ago it was made and
-- noticed. One that nobody has judged yet stays.
insert into canary as c (watcher_id, made_at, noticed_at)
select w.id, clock_timestamp() - make_interval(secs => $4), clock_timestamp() - make_interval(secs => $5)
from watcher w
where w.id = $2 and w.active and (
  w.owner = $1 and w.term = $3
  or exists (select 1 from watching g where g.watcher_id = w.id and g.owner = $1 and g.term = $3 and g.running))
for no key update of w
on conflict (watcher_id) do update
set made_at = excluded.made_at, noticed_at = excluded.noticed_at, stored_at = excluded.stored_at, judged_at = null
where c.judged_at is not null
