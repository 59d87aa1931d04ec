-- The name of an asset. $1 id.
select name from asset where id = $1 and active
