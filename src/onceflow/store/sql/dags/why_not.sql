-- What decides whether a DAG gets a run: the DAG as it stands, its file, who paused it, its cap. $1 dag_id.
select d.id, d.dag_id, d.active, d.paused, d.schedule_kind, d.max_active_runs, d.created_at, d.next_slot_at, d.last_judged_at,
       d.last_judgement, nullif(d.judge_at, 'infinity') as judge_at, d.judge_at = 'infinity' as waits_for_a_run, f.path as file, f.present as file_present, f.parsed_at,
       f.failure, i.made_at as paused_at, i.by as paused_by, i.reason as paused_reason, d.storm_at, d.release_rate, d.release_at, r.running, r.queued,
       l.run_id as last_run_id, l.state as last_run_state, l.created_at as last_run_at,
       case when strpos(v.spec::text, '\u0000') = 0 then v.spec -> 'schedule' end as schedule
from dag d
join dag_file f on f.id = d.file_id
left join dag_version v on v.id = d.version_id
left join intervention i on i.id = d.pause_id and d.paused
cross join lateral (
  select (select count(*) from run r where r.dag_id = d.id and r.state = 'running') as running,
         (select count(*) from run r where r.dag_id = d.id and r.state = 'queued') as queued
) r
left join lateral (select x.* from run x where x.dag_id = d.id order by x.ordinal desc limit 1) l on true
where d.dag_id = $1
