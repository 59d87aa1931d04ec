-- Forgets judgements without a run that were made longer ago than $1 seconds, $2 at most.
with old as materialized (
  select j.id from judgement j where j.judged_at < (select clock_timestamp()) - make_interval(secs => $1)
  order by j.judged_at limit $2 for no key update skip locked
), gone as (
  delete from judgement j using old o where j.id = o.id returning 1
)
select count(*) from gone
