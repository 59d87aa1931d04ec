-- G7: a delivery is superseded though no newer event of its asset is, or was before it was pruned, in a run of the consumer.
with newest as (
  select dag_id, asset_id, max(event_id) as event_id from delivery where disposition in ('started', 'joined') group by 1, 2
)
select y.event_id as event, d.dag_id, y.reason, n.event_id as newest_in_a_run
from delivery y
left join newest n on n.dag_id = y.dag_id and n.asset_id = y.asset_id
left join dag d on d.id = y.dag_id
join event e on e.id = y.event_id
join asset a on a.id = e.asset_id
where y.disposition = 'superseded' and (n.event_id is null or n.event_id < y.event_id)
  and (select count(*) from event l where l.asset_id = e.asset_id and l.seq > e.seq) = a.seq - e.seq
order by y.event_id limit $1
