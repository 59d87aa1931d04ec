-- Begins to run the watchers of mode all that this triggerer does not run yet. $1 owner, $2 limit.
with joined as (
  insert into watching as g (watcher_id, owner, generation)
  select w.id, $1, w.generation from watcher w
  where w.active and w.mode = 'all' and w.storm_at is null and not exists (
    select 1 from watching o where o.watcher_id = w.id and o.owner = $1
      and (o.running or o.generation = w.generation and o.next_try_at > clock_timestamp()))
  order by w.id limit $2
  on conflict (watcher_id, owner) do update
  set running = true, term = g.term + 1, claimed_at = clock_timestamp(), generation = excluded.generation,
      strikes = case when g.generation = excluded.generation then g.strikes else 0 end
  where not g.running
  returning g.watcher_id, g.term, g.generation, g.strikes
)
select w.id, w.mode, j.term, j.generation, w.classpath, w.kwargs, w.file, w.code, null::json as cursor, j.strikes, w.silent_after, w.max_events_per_minute, w.canary
from joined j join watcher w on w.id = j.watcher_id
