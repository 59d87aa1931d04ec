-- What was judged without a run, or beside one, and when to judge again. Without a text the last judgement stays.
-- $1 dags, $2 judgements, $3 times ('infinity': when a run has ended), $4 whether a join was judged, $5 now.
update dag d
set last_judged_at = coalesce($5, clock_timestamp()), last_judgement = coalesce(u.judgement::json, d.last_judgement),
    judge_at = u.judge_at::timestamptz, join_id = case when u.joined then null else d.join_id end
from unnest($1::bigint[], $2::text[], $3::text[], $4::boolean[]) as u (dag, judgement, judge_at, joined) where d.id = u.dag
