-- The rules of these assets are those that any of their declarations states; they do not contradict each other.
update asset a set rules = x.rules
from (
  select u.id, coalesce((select d.rules from asset_declaration d where d.asset_id = u.id and d.rules <> '{}'
                         order by d.file_id limit 1), '{}') as rules
  from unnest($1::bigint[]) as u (id)
) x
where a.id = x.id and a.rules <> x.rules
