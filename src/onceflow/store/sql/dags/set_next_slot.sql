update dag d set next_slot_at = u.slot from unnest($1::bigint[], $2::timestamptz[]) as u (dag, slot) where d.id = u.dag
