-- Subscriptions to which stored history is still to be delivered. $1 limit.
select s.asset_id as asset, s.dag_id as dag from subscription s where s.catching_up order by s.dag_id, s.asset_id limit $1
