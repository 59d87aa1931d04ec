-- Assets, who consumes and who watches them, by name. $1 name or URI, $2 active; null = any. $3 limit, $4 offset.
with page as (
  select a.id, count(*) over () as total
  from asset a
  where ($1::text is null or a.name = $1 or a.uri = $1) and ($2::boolean is null or a.active = $2)
  order by a.name limit $3 offset $4
)
select p.total, a.id, a.name, a.uri, a."group", a.extra, a.active, a.created_at, a.seq as events, a.seq - a.pruned as kept, a.rules,
       coalesce((select array_agg(d.dag_id order by d.dag_id) from dag d where d.id = any (a.subscribers)), '{}') as consumers,
       coalesce((select array_agg(w.name order by w.name) from watch w where w.asset_id = a.id and w.active), '{}')
         as watchers,
       (select e.created_at from event e where e.asset_id = a.id order by e.seq desc limit 1) as last_event_at
from page p join asset a on a.id = p.id
order by a.name
