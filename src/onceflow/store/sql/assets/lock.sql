-- Locks, by id, the assets with these names and those the DAGs of file $2 are subscribed to.
select a.id, a.name from asset a
where a.id in (
  select n.id from asset n where n.name = any ($1::text[])
  union select s.asset_id from dag d join subscription s on s.dag_id = d.id and (s.until_seq is null or s.catching_up) where d.file_id = $2
  union select x.asset_id from asset_declaration x where x.file_id = $2)
order by a.id for no key update
