select id from dag where active and not paused and next_slot_at is not null and next_slot_at <= (select coalesce($2, clock_timestamp()))
  and schedule_kind <> 'continuous'
order by next_slot_at limit $1
