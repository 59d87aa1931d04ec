-- Says which watcher feeds which asset, under which name, with what match and key. Returns the watchers whose assets changed;
-- `restart`: a key function that its guest has loaded is another one now.
with wanted as materialized (
  select u.asset, u.name, w.id, u.match, u.key::jsonb as key, u.key_file, u.key_code, x.watcher_id as before,
         (u.key_file, u.key_code) is distinct from (coalesce(x.key_file, ''), coalesce(x.key_code, '')) as restart
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
    as u (asset, name, definition, match, key, key_file, key_code)
  join watcher w on w.definition = u.definition
  left join watch x on x.asset_id = u.asset and x.name = u.name
  where x.watcher_id is null or x.watcher_id <> w.id or not x.active
    or (x.match::text, x.key, x.key_file, x.key_code) is distinct from (u.match, u.key::jsonb, u.key_file, u.key_code)
), put as (
  insert into watch (asset_id, name, watcher_id, match, key, key_file, key_code)
  select asset, name, id, match::json, key, key_file, key_code from wanted
  on conflict (asset_id, name) do update
  set watcher_id = excluded.watcher_id, match = excluded.match, key = excluded.key, key_file = excluded.key_file,
      key_code = excluded.key_code, active = true
)
select id, restart or key_file <> '' and before is distinct from id as restart from wanted
union select before, false from wanted where before is not null
