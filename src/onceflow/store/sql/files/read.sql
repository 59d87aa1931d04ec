select id, path, source_hash, term, present, failure from dag_file where bundle = $1
