select prune_watchers(clock_timestamp() - make_interval(secs => $1), $2)
