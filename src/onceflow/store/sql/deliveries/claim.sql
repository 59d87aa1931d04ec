select dag, version, hold, pause, joining, event, asset from claim_deliveries($1, $2, $3)
