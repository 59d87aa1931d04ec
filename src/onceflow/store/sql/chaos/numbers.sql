-- What watchers told that count their changes (a payload with an integer "chaos_number", 1, 2, 3, ... on each asset): how many
-- numbers there are, how many up to the highest have no event, and how many events are of a number that has one already.
select coalesce(sum(x.told), 0)::bigint as told, coalesce(sum(x.highest - x.told), 0)::bigint as missing,
       coalesce(sum(x.events - x.told), 0)::bigint as doubled
from (
  select count(*) as events, count(distinct n.number) as told, max(n.number) as highest
  from event e cross join lateral (select (e.extra ->> 'chaos_number')::bigint as number) n
  where json_typeof(e.extra) = 'object' and json_typeof(e.extra -> 'chaos_number') = 'number' and e.source ->> 'kind' = 'watcher'
  group by e.asset_id
) x
