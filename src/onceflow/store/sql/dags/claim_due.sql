select dag, version, next_slot_at, anchor_at, now_at from claim_due_dags($1, $2, $3)
