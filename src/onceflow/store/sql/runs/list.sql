-- Runs with their events (in the order of commit), oldest first or newest first.
-- $1 dag_id, $2 state, $3 type, $4 run_id, $5 from, $6 to (created, inclusive); null = any. $7 newest first, $8 limit,
-- $9 offset.
with page as (
  select r.id, count(*) over () as total
  from run r join dag d on d.id = r.dag_id
  where ($1::text is null or d.dag_id = $1)
    and ($2::text is null or r.state::text = $2)
    and ($3::text is null or r.run_type::text = $3)
    and ($4::text is null or r.run_id = $4)
    and ($5::timestamptz is null or r.created_at >= $5)
    and ($6::timestamptz is null or r.created_at <= $6)
  order by case when $7::boolean then -r.id else r.id end
  limit $8 offset $9
)
select p.total, r.id, d.dag_id, r.run_id, r.run_type, r.state, r.created_at, r.started_at, r.finished_at,
       coalesce(m.events, '{}') as events, r.logical_date, r.conf, r.created_by, r.end_reason, r.ordinal,
       v.number as version, r.downstream, r.pruned_events, o.run_id as of_run, i.reason
from page p
join run r on r.id = p.id
join dag d on d.id = r.dag_id
left join dag_version v on v.id = r.version_id
left join run o on o.id = r.of_run
left join intervention i on i.id = r.intervention_id
cross join lateral (
  select array_agg(y.event_id order by y.event_id) as events from (
    select y.event_id from delivery y where y.run_id = r.id
    union all select m.event_id from run_member m where m.run_id = r.id) y
) m
order by case when $7 then -r.id else r.id end
