select dag, version, hold, event, asset from claim_deliveries($1, $2)
