-- What waits for consumers that gather: per asset the oldest and the newest delivery that was judged, and how many there
-- are, counted up to $2 (null = all). `room`: runs that max_active_runs leaves. The consumers are locked by an earlier
-- statement; one for which nothing waits has one row with a null asset. $1 dags, $3 now.
select d.id as dag, coalesce($3, clock_timestamp()) as now_at, d.max_active_runs as cap, d.max_active_runs - r.active as room,
       c.catching_up, (select a.name from asset a where a.id = w.asset_id) as asset, w.waiting, w.first, w.last,
       (select e.created_at from event e where e.id = w.first) as first_at,
       (select e.created_at from event e where e.id = w.last) as last_at
from dag d
cross join lateral (
  select count(*) as active from (
    (select 1 from run r where r.dag_id = d.id and r.state = 'running' limit d.max_active_runs)
    union all
    (select 1 from run r where r.dag_id = d.id and r.state = 'queued' limit d.max_active_runs)) x
) r
cross join lateral (
  select exists (select 1 from subscription s where s.dag_id = d.id and s.catching_up) as catching_up
) c
left join lateral (
  select s.asset_id, f.event_id as first, l.event_id as last, n.waiting
  from (select distinct s.asset_id from subscription s where s.dag_id = d.id) s
  cross join lateral (
    select y.event_id from delivery y
    where y.dag_id = d.id and y.disposition = 'pending' and y.judged and y.asset_id = s.asset_id
    order by y.event_id limit 1
  ) f
  cross join lateral (
    select y.event_id from delivery y
    where y.dag_id = d.id and y.disposition = 'pending' and y.judged and y.asset_id = s.asset_id
    order by y.event_id desc limit 1
  ) l
  cross join lateral (
    select count(*) as waiting from (
      select 1 from delivery y
      where y.dag_id = d.id and y.disposition = 'pending' and y.judged and y.asset_id = s.asset_id limit $2) x
  ) n
) w on true
where d.id = any ($1::bigint[]) order by d.id, w.first
