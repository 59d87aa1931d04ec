insert into asset (name, uri, "group", extra)
select u.name, u.uri, u.grp, u.extra::json from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as u (name, uri, grp, extra)
order by u.name on conflict (name) do nothing
