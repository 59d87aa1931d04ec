select s.asset_id, a.name from subscription s join asset a on a.id = s.asset_id
where s.dag_id = $1 and (s.until_seq is null or s.catching_up)
