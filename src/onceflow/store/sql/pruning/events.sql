select reached, pruned from prune_events($1, $2, clock_timestamp() - make_interval(secs => $3), $4)
