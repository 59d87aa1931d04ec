-- Those of the assets $2 to which DAG $1 was subscribed until no file defined it any more, $3 seconds ago at most.
select l.asset_id from (
  select distinct on (s.asset_id) s.asset_id, s.lapsed, s.ended_at, s.until_seq from subscription s
  where s.dag_id = $1 and s.asset_id = any ($2::bigint[]) order by s.asset_id, s.from_seq desc
) l
where l.until_seq is not null and l.lapsed and l.ended_at > clock_timestamp() - make_interval(secs => $3)
