-- How many of these changes have no event. $1 names of assets, $2 keys.
select count(*) from unnest($1::text[], $2::text[]) as u (name, key)
join asset a on a.name = u.name
where not exists (select 1 from event e where e.asset_id = a.id and e.key = u.key)
