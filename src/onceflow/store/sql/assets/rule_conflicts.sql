-- Why the rules that file $1 states for these assets do not stand: another file states others, or one of the two has an
-- entrance without the key function, which is called there, or beside the sole one of a high-water mark. What the files
-- with the paths $5 state is about to be replaced, and does not count.
select u.name, f.path, d.place, u.rules <> '{}' and d.rules <> '{}' as differ, d.rules::text as other
from (select x.name, x.rules::jsonb, x.entrance from unnest($2::text[], $3::text[], $4::boolean[]) as x (name, rules, entrance)) u
join asset a on a.name = u.name
join asset_declaration d on d.asset_id = a.id and d.file_id <> $1
join dag_file f on f.id = d.file_id and f.path <> all ($5::text[])
where (u.rules <> '{}' and d.rules <> '{}' and (u.rules #- '{key,file}') <> (d.rules #- '{key,file}'))
   or (u.rules #> '{key,function}' is not null and d.entrance and d.rules = '{}')
   or (d.rules #> '{key,function}' is not null and u.entrance and u.rules = '{}')
   or ('"high-water"' in ((u.rules -> 'protection')::text, (d.rules -> 'protection')::text) and u.entrance and d.entrance)
limit 1
