-- The subscribers written in the asset's row are not those of the open subscriptions.
select a.name as asset, a.subscribers, coalesce(s.dags, '{}') as subscriptions
from asset a
left join (select asset_id, array_agg(dag_id order by dag_id) as dags from subscription where until_seq is null group by 1) s
  on s.asset_id = a.id
where coalesce(s.dags, '{}') <> array(select x from unnest(a.subscribers) x order by x)
order by a.name limit $1
