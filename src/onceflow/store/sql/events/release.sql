-- Lets a quarantined event go on; its asset is locked by an earlier statement. $1 event, $2 payload or null = as it is,
-- $3 by whom, $4 reason, $5 now.
select release_event($1, $2, $3, $4, coalesce($5, clock_timestamp()))
