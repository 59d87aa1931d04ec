select dag, version, hold, pause, joining, asset, events, released, meanwhile, allowance from claim_deliveries($1, $2, $3, $4, $5)
