select prune_runs(clock_timestamp() - make_interval(secs => $1), $2)
