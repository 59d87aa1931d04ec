-- Trips the breaker of locked consumers: what nobody has released is held from now on. $1 dags, $2 what tripped it (JSON), $3 now.
update dag d set storm = u.storm::json, storm_at = coalesce($3, clock_timestamp()), judge_at = null
from unnest($1::bigint[], $2::text[]) as u (dag, storm) where d.id = u.dag and d.storm is null
