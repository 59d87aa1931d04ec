-- Gives a quarantined event the key that it should have had, and lets it go on; its asset is locked by an earlier statement. Returns
-- the event that the change is. $1 event, $2 hash and $3 text of the key, $4 payload or null = as it is, $5 whether that keeps the
-- schema, $6 by whom, $7 reason, $8 now.
select name_event($1, $2, $3, $4, $5, $6, $7, coalesce($8, clock_timestamp()))
