-- G3: an asset run is started by exactly one delivery, of its start event to its own DAG.
select d.dag_id, r.run_id, r.start_event, count(y.event_id) as starters
from run r
join dag d on d.id = r.dag_id
left join delivery y on y.run_id = r.id and y.disposition = 'started' and y.event_id = r.start_event and y.dag_id = r.dag_id
where r.start_event is not null or r.run_type = 'asset_triggered'
group by r.id, d.dag_id, r.run_id, r.start_event
having count(y.event_id) <> 1
order by r.id limit $1
