-- $10: whether all that is open is judged anew, so that no time to judge it is kept.
update dag set dag_id = $2, file_id = $3, version_id = $4, source_hash = $5, active = true, schedule_kind = $6,
  max_active_runs = $7, anchor_at = $8, next_slot_at = $9, max_rounds = $11, max_runs_per_minute = $12, judge_at = case when not $10 then judge_at end where id = $1
