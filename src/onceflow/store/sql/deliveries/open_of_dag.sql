-- What is open for a DAG: per asset, how it stands and why, how many, and the oldest. $1 dag.
select a.name as asset, y.disposition, y.judged, y.reason, count(*) as deliveries, min(y.event_id) as first_event,
       min(e.created_at) as first_at
from (
  select y.* from delivery y where y.dag_id = $1 and y.disposition = 'pending' and not y.judged
  union all
  select y.* from delivery y where y.dag_id = $1 and y.disposition in ('pending', 'held') and y.judged
) y
join event e on e.id = y.event_id
join asset a on a.id = y.asset_id
group by 1, 2, 3, 4 order by 1, 2, 3, 4
