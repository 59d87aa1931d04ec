-- DAGs that were not subscribed when event $1 was stored, and were before, or have been since; or that catch up with it yet.
select d.dag_id, e.seq, max(s.ended_at) filter (where s.until_seq <= e.seq) as until, min(s.began_at) filter (where s.from_seq > e.seq) as since,
       coalesce(bool_or(s.lapsed) filter (where s.until_seq <= e.seq), false) as lapsed, bool_or(s.catching_up) as catching_up
from event e join subscription s on s.asset_id = e.asset_id join dag d on d.id = s.dag_id
where e.id = $1 and not exists (select 1 from delivery y where y.event_id = e.id and y.dag_id = s.dag_id)
group by d.dag_id, e.seq order by d.dag_id
