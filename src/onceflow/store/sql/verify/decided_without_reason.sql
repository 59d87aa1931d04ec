-- G7: a delivery was decided without a run, or is held, and it is not said why.
select y.event_id as event, y.dag_id as dag, y.disposition, y.reason
from delivery y
where y.disposition in ('held', 'filtered', 'superseded', 'discarded') and coalesce(btrim(y.reason), '') = ''
order by y.event_id limit $1
