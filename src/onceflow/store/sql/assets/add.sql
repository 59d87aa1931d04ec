-- Assets not known yet. They become active, and get their URI, when what they would contradict is seen to be gone.
insert into asset (name, uri, active) select u.name, '', false from unnest($1::text[]) as u (name)
order by u.name on conflict (name) do nothing
