select prune_keys($1)
