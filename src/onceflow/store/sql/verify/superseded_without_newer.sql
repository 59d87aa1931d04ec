-- G7: a delivery is superseded though no newer event of its asset is, or was before it was pruned, in a run of the consumer.
with newest as materialized (
  select dag_id, asset_id, max(event_id) as event_id from delivery where disposition in ('started', 'joined') group by 1, 2
), suspect as materialized ( -- first, so that later events are counted for these alone
  select y.event_id, y.dag_id, y.reason, n.event_id as newest
  from delivery y left join newest n on n.dag_id = y.dag_id and n.asset_id = y.asset_id
  where y.disposition = 'superseded' and (n.event_id is null or n.event_id < y.event_id)
)
select s.event_id as event, d.dag_id, s.reason, s.newest as newest_in_a_run
from suspect s
left join dag d on d.id = s.dag_id
join event e on e.id = s.event_id
join asset a on a.id = e.asset_id
where (select count(*) from event l where l.asset_id = e.asset_id and l.seq > e.seq) = a.seq - e.seq
order by s.event_id limit $1
