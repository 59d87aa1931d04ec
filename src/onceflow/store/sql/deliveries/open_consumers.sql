-- The DAGs for which one of these events is open, or (null = any event) the one with this dag_id; by id. $1 events, $2 dag_id.
select d.id, d.dag_id from dag d
where ($2::text is null or d.dag_id = $2)
  and ($1::bigint[] is null or exists (
    select 1 from delivery y
    where y.event_id = any ($1) and y.dag_id = d.id and y.disposition in ('pending', 'held')))
order by d.id
