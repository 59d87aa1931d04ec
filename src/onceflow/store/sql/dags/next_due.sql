select extract(epoch from d.next_slot_at - clock_timestamp())::float8 from dag d
where d.active and not d.paused and d.next_slot_at is not null and d.schedule_kind <> 'continuous'
  and not exists (select 1 from run r where r.dag_id = d.id and r.state = 'queued' offset $1 - 1)
order by d.next_slot_at limit 1
