-- Assets by name or, if no asset has that name, by URI.
select u.wanted, a.id, a.name, a.rules
from unnest($1::text[]) as u (wanted)
cross join lateral (
  (select n.id, n.name, n.rules, 1 as choice from asset n where n.active and n.name = u.wanted)
  union all
  (select n.id, n.name, n.rules, 2 from asset n where n.active and n.uri <> '' and n.uri = u.wanted)
  order by choice limit 1
) a
