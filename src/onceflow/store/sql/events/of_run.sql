-- The events of a run: those it consumed, or (disposition 'member') those it was given, in the order of commit. $1 dag_id, $2 run_id.
select e.id, a.name as asset, e.seq, e.key, e.extra, e.source, e.created_at, y.disposition, y.decided_at,
       (select 1 + count(*) from witness w where w.event_id = e.id) as witnesses
from run r
join dag d on d.id = r.dag_id
cross join lateral (
  select y.event_id, y.disposition::text, y.decided_at from delivery y where y.run_id = r.id
  union all select m.event_id, 'member', null from run_member m where m.run_id = r.id) y
join event e on e.id = y.event_id
join asset a on a.id = e.asset_id
where d.dag_id = $1 and r.run_id = $2
order by e.id
