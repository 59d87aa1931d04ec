-- Timed DAGs that are due, but for those with $3 runs in the queue: their next slots wait until it gets shorter.
select d.id from dag d
where d.active and not d.paused and d.next_slot_at <= (select coalesce($2, clock_timestamp())) and d.schedule_kind <> 'continuous'
  and not exists (select 1 from run r where r.dag_id = d.id and r.state = 'queued' offset $3 - 1)
order by d.next_slot_at limit $1
