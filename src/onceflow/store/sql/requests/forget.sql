-- A request that was refused has done nothing: its key may be used again.
delete from request where hash = $1 and status is null
