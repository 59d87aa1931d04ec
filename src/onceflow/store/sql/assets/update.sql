update asset a set active = true, uri = case when u.uri <> '' then u.uri else a.uri end, "group" = u.grp,
  extra = case when u.extra <> '{}' then u.extra::json else a.extra end
from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as u (name, uri, grp, extra)
where a.name = u.name
  and (not a.active or (u.uri <> '' and a.uri <> u.uri) or a."group" <> u.grp or (u.extra <> '{}' and a.extra::text <> u.extra))
