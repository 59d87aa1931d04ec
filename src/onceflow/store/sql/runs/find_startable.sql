-- DAGs with queued runs below their cap: one index probe per DAG that has any queued.
with recursive waiting as (
  (select r.dag_id from run r where r.state = 'queued' and r.dag_id > $2 order by r.dag_id limit 1)
  union all
  select (select r.dag_id from run r where r.state = 'queued' and r.dag_id > w.dag_id order by r.dag_id limit 1)
  from waiting w where w.dag_id is not null
)
select w.dag_id from waiting w join dag d on d.id = w.dag_id
where d.active and not d.paused and d.version_id is not null
  and (select count(*) from (select 1 from run r where r.dag_id = d.id and r.state = 'running' limit d.max_active_runs) x)
      < d.max_active_runs
limit $1
