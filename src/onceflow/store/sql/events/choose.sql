-- Events by asset (names), by time of recording (from, to, inclusive) and by id; null = any. In the order of commit.
-- One that is quarantined, or turned out to be the change of another, has to be named.
-- $1 assets, $2 from, $3 to, $4 ids, $5 limit.
select e.id, a.name as asset from event e join asset a on a.id = e.asset_id
where ($1::text[] is null or a.name = any ($1))
  and ($2::timestamptz is null or e.created_at >= $2)
  and ($3::timestamptz is null or e.created_at <= $3)
  and ($4::bigint[] is null or e.id = any ($4))
  and ($4 is not null or not exists (select 1 from quarantine q where q.event_id = e.id and (q.released_at is null or q.same_as is not null)))
order by e.id limit $5
