-- A delivery is held by a storm that is over, so that nobody would notice it.
select y.event_id as event, d.dag_id
from delivery y join dag d on d.id = y.dag_id
where y.disposition = 'held' and y.reason = 'storm' and d.storm is null
order by y.event_id limit $1
