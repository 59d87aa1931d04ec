-- A delivery whose event does not exist, or belongs to another asset than the delivery says.
select y.event_id as event, y.dag_id as dag, y.asset_id, e.asset_id as event_asset_id
from delivery y left join event e on e.id = y.event_id
where e.id is null or e.asset_id <> y.asset_id
order by y.event_id limit $1
