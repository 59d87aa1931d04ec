-- The compare-and-set of a registration: the first of N dag-processors wins, a late one changes nothing.
update dag_file set term = term + 1, source_hash = $3, present = $4, failure = $5::json, warnings = coalesce($6::json, warnings),
  parsed_at = clock_timestamp(), parse_seconds = $7
where id = $1 and term = $2 returning id
