select d.id from dag d
where d.active and not d.paused and d.schedule_kind = 'continuous' and coalesce(d.next_slot_at, '-infinity') <= coalesce($2, clock_timestamp())
  and not exists (select 1 from run r where r.dag_id = d.id and r.state = 'queued')
  and not exists (select 1 from run r where r.dag_id = d.id and r.state = 'running')
limit $1
