-- What this process owns and runs, as the database has it. `generation` 0: it is no longer declared, or in a storm, and no trigger was
-- started for that. `settled`: claimed so long ago that its answer has come if it ever will. $1 owner, $2 seconds.
select w.id, w.term, case when w.active and w.storm_at is null then w.generation else 0 end as generation,
       w.claimed_at < clock_timestamp() - make_interval(secs => $2) as settled
from watcher w where w.owner = $1
union all
select g.watcher_id, g.term, case when w.active and w.storm_at is null then w.generation else 0 end,
       g.claimed_at < clock_timestamp() - make_interval(secs => $2)
from watching g join watcher w on w.id = g.watcher_id where g.owner = $1 and g.running
