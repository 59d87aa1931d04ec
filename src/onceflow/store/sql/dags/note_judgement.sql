update dag d set last_judged_at = coalesce($3, clock_timestamp()), last_judgement = u.judgement::json
from unnest($1::bigint[], $2::text[]) as u (dag, judgement) where d.id = u.dag
