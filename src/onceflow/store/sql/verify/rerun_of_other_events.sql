-- A rerun has not exactly the events of its run (as far as these are known still).
with original as (
  select r.id as rerun, r.of_run, x.event_id
  from run r
  cross join lateral (
    select y.event_id from delivery y where y.run_id = r.of_run
    union all select m.event_id from run_member m where m.run_id = r.of_run
  ) x
  where r.of_run is not null
), again as (
  select r.id as rerun, r.of_run, m.event_id from run r join run_member m on m.run_id = r.id where r.of_run is not null
)
select d.dag_id, r.run_id, f.run_id as of_run, coalesce(a.event_id, o.event_id) as event, a.event_id is null as missing
from original o
full join again a on a.rerun = o.rerun and a.event_id = o.event_id
join run r on r.id = coalesce(a.rerun, o.rerun)
join run f on f.id = r.of_run
join dag d on d.id = r.dag_id
where a.event_id is null or o.event_id is null
order by r.id, 4 limit $1
