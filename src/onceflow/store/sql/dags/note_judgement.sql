-- What was judged without a run, or beside one, and when to judge again. Without a text the last judgement stays; one with
-- another verdict than the last is kept in `judgement`, too. The dags are locked by an earlier statement.
-- $1 dags, $2 judgements, $3 times ('infinity': when a run has ended), $4 whether a join was judged, $5 now, $6 process.
with judged as (
  select u.dag, u.judgement::json as judgement, u.judge_at::timestamptz as judge_at, u.joined
  from unnest($1::bigint[], $2::text[], $3::text[], $4::boolean[]) as u (dag, judgement, judge_at, joined)
), kept as (
  insert into judgement (dag_id, version_id, judged_at, process_id, explanation)
  select d.id, d.version_id, coalesce($5, clock_timestamp()), $6, j.judgement from judged j join dag d on d.id = j.dag
  where j.judgement is not null and verdict(j.judgement) is distinct from verdict(d.last_judgement)
)
update dag d
set last_judged_at = coalesce($5, clock_timestamp()), last_judgement = coalesce(j.judgement, d.last_judgement),
    judge_at = j.judge_at, join_id = case when j.joined then null else d.join_id end
from judged j where d.id = j.dag
