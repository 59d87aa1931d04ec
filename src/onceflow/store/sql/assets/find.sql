-- Assets by name or, if no asset has that name, by URI.
select u.wanted, a.id, a.name
from unnest($1::text[]) as u (wanted)
cross join lateral (
  select a.id, a.name from asset a where a.active and (a.name = u.wanted or (a.uri = u.wanted and u.wanted <> ''))
  order by a.name = u.wanted desc limit 1
) a
