-- Gives back the deliveries that were held because their consumer was paused; the consumer is locked. $1 the dag's id.
with released as (
  update delivery set disposition = 'pending', judged = false, reason = null
  where dag_id = $1 and judged and disposition = 'held' and reason = 'pause' returning 1
)
select count(*) from released
