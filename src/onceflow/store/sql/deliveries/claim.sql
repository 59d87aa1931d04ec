select dag, version, hold, pause, joining, event, asset, released, allowance from claim_deliveries($1, $2, $3, $4, $5)
