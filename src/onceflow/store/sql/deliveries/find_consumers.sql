-- Consumers with deliveries nobody has judged: one index probe per consumer, however much is pending.
with recursive consumer as (
  (select y.dag_id from delivery y where y.disposition = 'pending' and not y.judged and y.dag_id > $2
   order by y.dag_id limit 1)
  union all
  select (select y.dag_id from delivery y where y.disposition = 'pending' and not y.judged and y.dag_id > c.dag_id
          order by y.dag_id limit 1)
  from consumer c where c.dag_id is not null
)
select dag_id from consumer where dag_id is not null limit $1
