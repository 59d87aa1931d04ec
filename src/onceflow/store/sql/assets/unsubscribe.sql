-- What was replayed until now stays so: an interval that is catching up ends where it is. $3: because the DAG is gone.
with unsubscribed as (
  update asset a set subscribers = array_remove(a.subscribers, $1::bigint)
  where a.id = any ($2::bigint[]) and $1 = any (a.subscribers) returning a.id, a.seq
), closed as (
  update subscription s set until_seq = u.seq + 1, ended_at = clock_timestamp(), lapsed = $3 from unsubscribed u
  where s.asset_id = u.id and s.dag_id = $1 and s.until_seq is null
)
update subscription s set catching_up = false, ended_at = clock_timestamp(), lapsed = $3
where s.asset_id = any ($2::bigint[]) and s.dag_id = $1 and s.catching_up
