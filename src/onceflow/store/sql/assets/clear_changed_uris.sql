-- Before the assets of a file get their URIs, those give theirs up that get another one: two may have changed places.
update asset a set uri = '' from unnest($1::text[], $2::text[]) as u (name, uri)
where a.name = u.name and u.uri <> '' and a.uri <> u.uri and a.uri <> ''
