select n, event_id, status from record_events($1, $2, $3, $4, $5, $6, p_flaw => $7, p_keyless => $8, p_now => $9)
