-- The assets are locked by the caller: the interval begins with the next event. One that was closed since the last event
-- began at the same number: it is opened again.
with subscribed as (
  update asset a set subscribers = array_append(a.subscribers, $1::bigint)
  where a.id = any ($2::bigint[]) and not ($1 = any (a.subscribers)) returning a.id, a.seq
)
insert into subscription (asset_id, dag_id, from_seq) select id, $1, seq + 1 from subscribed
on conflict (asset_id, dag_id, from_seq) do update set until_seq = null
