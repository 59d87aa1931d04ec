-- Whether an asset of this name or URI was ever declared.
select exists (select 1 from asset a where a.name = $1 or a.uri = $1 and a.uri <> '')
