-- G7: a DAG subscribed at the event's sequence number has no delivery of it. $1 limit, as in every check.
select e.id as event, a.name as asset, e.seq, d.dag_id
from subscription s
join event e on e.asset_id = s.asset_id and e.seq >= s.from_seq and (s.until_seq is null or e.seq < s.until_seq)
join asset a on a.id = s.asset_id
left join dag d on d.id = s.dag_id
left join delivery y on y.event_id = e.id and y.dag_id = s.dag_id
where y.event_id is null
order by e.id limit $1
