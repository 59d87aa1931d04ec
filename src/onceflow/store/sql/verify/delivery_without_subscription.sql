-- G7: a delivery to a DAG that was not subscribed at the event's sequence number.
select y.event_id as event, e.asset_id, e.seq, y.dag_id as dag, y.disposition
from delivery y
join event e on e.id = y.event_id
left join subscription s on s.asset_id = e.asset_id and s.dag_id = y.dag_id and e.seq >= s.from_seq
                            and (s.until_seq is null or e.seq < s.until_seq)
where s.asset_id is null
order by y.event_id limit $1
