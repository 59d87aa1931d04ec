-- $1 dag, $2 discard or release, $3 each or join, $4 events, $5 asset, $6 reasons, $7 by whom (JSON), $8 why, $9 details, $10 now.
select intervention, deliveries from settle_by_hand($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
