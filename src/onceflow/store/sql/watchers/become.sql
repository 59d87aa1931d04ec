-- A watcher all of whose watches have other arguments now is still the same one, with other arguments: it starts anew, without
-- its old cursor unless the author ($7) says so. One that keeps feeding something stays as it is, and so does one whose new
-- arguments are another's.
update watcher w
set definition = n.definition, classpath = n.classpath, kwargs = n.kwargs::json, file = n.file, code = n.code,
    generation = w.generation + 1, cursor = case when n.keep then w.cursor end,
    strikes = 0, next_try_at = '-infinity', storm = null, storm_at = null, last_error = null, last_error_at = null
from (
  select distinct on (u.definition) x.watcher_id, u.definition, min(u.mode) as mode, min(u.classpath) as classpath, min(u.kwargs) as kwargs,
         min(u.file) as file, min(u.code) as code, bool_or(u.keep) as keep
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[], $8::text[], $9::text[])
    as u (asset, name, definition, mode, classpath, kwargs, keep, file, code)
  join watch x on x.asset_id = u.asset and x.name = u.name
  where not exists (select 1 from watcher o where o.definition = u.definition)
  group by x.watcher_id, u.definition
  having count(*) = (select count(*) from watch o where o.watcher_id = x.watcher_id)
  order by u.definition, x.watcher_id
) n
where w.id = n.watcher_id and w.mode = n.mode
