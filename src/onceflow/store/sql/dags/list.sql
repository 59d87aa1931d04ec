-- DAGs with what is going on in them, by dag_id.
-- $1 dag_id, $2 a part of it, $3 active, $4 paused; null = any. $5 limit, $6 offset.
-- A spec with a NUL in a text, which no JSON operator takes apart, is shown without what it says.
with page as (
  select d.id, count(*) over () as total
  from dag d
  where ($1::text is null or d.dag_id = $1)
    and ($2::text is null or strpos(lower(d.dag_id), lower($2)) > 0)
    and ($3::boolean is null or d.active = $3)
    and ($4::boolean is null or d.paused = $4)
  order by d.dag_id limit $5 offset $6
)
select p.total, d.id, d.dag_id, d.active, d.paused, d.schedule_kind, s.spec -> 'schedule' as schedule,
       s.spec ->> 'description' as description, s.spec ->> 'owner' as owner, s.spec -> 'tags' as tags, v.number as version,
       v.created_at as version_at, d.max_active_runs, d.created_at, d.next_slot_at, f.path as file, f.bundle,
       f.parsed_at, f.failure is not null as broken, c.queued, c.running, o.open_deliveries, o.oldest_open_at,
       d.storm_at, o.held, extract(epoch from clock_timestamp() - o.oldest_open_at)::double precision as lag, l.run_id as last_run_id,
       l.state as last_run_state, l.created_at as last_run_at
from page p
join dag d on d.id = p.id
join dag_file f on f.id = d.file_id
left join dag_version v on v.id = d.version_id
cross join lateral (select case when strpos(v.spec::text, '\u0000') = 0 then v.spec end as spec) s
cross join lateral (
  select (select count(*) from run r where r.dag_id = d.id and r.state = 'queued') as queued,
         (select count(*) from run r where r.dag_id = d.id and r.state = 'running') as running
) c
cross join lateral (
  select count(*) as open_deliveries, count(*) filter (where y.disposition = 'held') as held, min(e.created_at) as oldest_open_at
  from (
    select y.event_id, y.disposition from delivery y where y.dag_id = d.id and y.disposition = 'pending' and not y.judged
    union all
    select y.event_id, y.disposition from delivery y where y.dag_id = d.id and y.disposition in ('pending', 'held') and y.judged
  ) y join event e on e.id = y.event_id
) o
left join lateral (
  select r.run_id, r.state, r.created_at from run r where r.dag_id = d.id order by r.ordinal desc limit 1
) l on true
order by d.dag_id
