-- G4: the condition of a DAG was met when it was last judged, events wait, and nothing will make anybody judge them again.
select d.dag_id, d.schedule_kind, d.last_judged_at, y.event_id as event
from dag d
cross join lateral (
  select y.event_id from delivery y where y.dag_id = d.id and y.disposition = 'pending' and y.judged order by y.event_id limit 1
) y
where d.active and d.judge_at is null and starts_with(d.schedule_kind, 'asset:')
  and case when strpos(d.last_judgement::text, '\u0000') = 0 then d.last_judgement -> 'condition' ->> 'holds' end = 'true'
  and not exists (select 1 from delivery o where o.dag_id = d.id and o.disposition = 'pending' and not o.judged)
  and not exists (select 1 from subscription s where s.dag_id = d.id and s.catching_up)
order by 1 limit $1
