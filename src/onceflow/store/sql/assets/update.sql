-- An asset that comes back without a URI has none: its old one may be another's by now.
update asset a set active = true, uri = case when u.uri <> '' then u.uri when a.active then a.uri else '' end, "group" = u.grp,
  extra = case when u.extra <> '{}' then u.extra::json else a.extra end
from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as u (name, uri, grp, extra)
where a.name = u.name
  and (not a.active or (u.uri <> '' and a.uri <> u.uri) or a."group" <> u.grp or (u.extra <> '{}' and a.extra::text <> u.extra))
