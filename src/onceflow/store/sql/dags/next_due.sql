select extract(epoch from min(next_slot_at) - clock_timestamp())::float8 from dag
where active and not paused and next_slot_at is not null and schedule_kind <> 'continuous'
