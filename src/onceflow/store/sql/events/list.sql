-- Events with their deliveries, in the order of their ids (of commit within an asset), or newest first.
-- $1 asset by name or URI, $2 key, $3 from, $4 to (created, inclusive), $5 kind of source, $6 DAG and $7 task of a task's
-- event, $8 consumer, $9 its disposition ('open' = pending or held); $10 id; $11 quarantined now; null = any.
-- $12 newest first, $13 limit, $14 offset.
with page as (
  select e.id, count(*) over () as total
  from event e join asset a on a.id = e.asset_id
  where ($1::text is null or a.name = $1 or a.uri = $1)
    and ($2::text is null or e.key = $2)
    and ($3::timestamptz is null or e.created_at >= $3)
    and ($4::timestamptz is null or e.created_at <= $4)
    and ($5::text is null or e.source ->> 'kind' = $5)
    and ($6::text is null or e.source ->> 'dag_id' = $6)
    and ($7::text is null or e.source ->> 'task_id' = $7)
    and (($8::text is null and $9::text is null) or exists (
      select 1 from delivery y join dag d on d.id = y.dag_id
      where y.event_id = e.id and ($8::text is null or d.dag_id = $8)
        and ($9::text is null or y.disposition::text = $9
             or ($9 = 'open' and y.disposition in ('pending', 'held')))))
    and ($10::bigint is null or e.id = $10)
    and ($11::boolean is null
         or $11 = exists (select 1 from quarantine q where q.event_id = e.id and q.released_at is null))
  order by case when $12::boolean then -e.id else e.id end
  limit $13 offset $14
)
select p.total, e.id, a.id as asset_id, a.name as asset, a.uri, a."group", e.seq, e.key, e.extra, e.source, e.created_at,
       1 + w.later as witnesses, w.differing, w.last_seen_at,
       extract(epoch from w.last_seen_at - e.created_at)::double precision as behind_seconds,
       coalesce(y.deliveries, '[]') as deliveries, q.flaw, q.flaw is not null and q.released_at is null as quarantined
from page p
join event e on e.id = p.id
join asset a on a.id = e.asset_id
left join quarantine q on q.event_id = e.id
cross join lateral (
  select count(*) as later, count(*) filter (where w.differs) as differing, max(w.seen_at) as last_seen_at from witness w where w.event_id = e.id
) w
cross join lateral (
  select json_agg(json_build_object('dag_id', d.dag_id, 'disposition', y.disposition, 'run_id', r.run_id,
                                    'reason', y.reason) order by d.dag_id) as deliveries
  from delivery y left join dag d on d.id = y.dag_id left join run r on r.id = y.run_id
  where y.event_id = e.id
) y
order by case when $12 then -e.id else e.id end
