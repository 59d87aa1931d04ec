-- Consumers with something to judge: deliveries that nobody has judged (one index probe per consumer, however much is
-- pending), waiting ones whose time has come, waiting ones for which a run has ended. $1 limit, $2 only ids above,
-- $3 now.
with recursive consumer as (
  (select y.dag_id from delivery y where y.disposition = 'pending' and not y.judged and y.dag_id > $2
   order by y.dag_id limit 1)
  union all
  select (select y.dag_id from delivery y where y.disposition = 'pending' and not y.judged and y.dag_id > c.dag_id
          order by y.dag_id limit 1)
  from consumer c where c.dag_id is not null
)
(select dag_id from consumer where dag_id is not null limit $1)
union
(select d.id from dag d
 where d.active and not d.paused and d.judge_at <= (select coalesce($3, clock_timestamp())) and d.id > $2
 order by d.judge_at, d.id limit $1)
union
(select d.id from dag d
 where d.active and not d.paused and d.judge_at = 'infinity' and d.id > $2
   and d.max_active_runs > (select count(*) from (
     (select 1 from run r where r.dag_id = d.id and r.state = 'running' limit d.max_active_runs)
     union all
     (select 1 from run r where r.dag_id = d.id and r.state = 'queued' limit d.max_active_runs)) x)
 order by d.judge_at, d.id limit $1)
order by 1 limit $1
