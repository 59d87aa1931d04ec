-- Consumers of whose held events the next may be released, as a person asked for them slowly. $1 limit.
select id from dag where active and not paused and release_at <= (select clock_timestamp()) order by release_at limit $1
