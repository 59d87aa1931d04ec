-- Locks, by id, the assets with these names and those the DAGs of file $2 are subscribed to.
select a.id, a.name from asset a
where a.name = any ($1::text[])
   or a.id in (select s.asset_id from subscription s join dag d on d.id = s.dag_id where d.file_id = $2 and s.until_seq is null)
   or a.id in (select x.asset_id from asset_declaration x where x.file_id = $2)
order by a.id for no key update
