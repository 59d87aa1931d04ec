select catch_up($1, $2, $3)
