update dag set dag_id = $2, file_id = $3, version_id = $4, source_hash = $5, active = true, schedule_kind = $6,
  max_active_runs = $7, anchor_at = $8, next_slot_at = $9 where id = $1
