-- Forgets requests that came longer ago than $1 seconds, $2 at most.
with old as materialized (
  select r.hash from request r where r.created_at < (select clock_timestamp()) - make_interval(secs => $1)
  order by r.created_at limit $2 for no key update skip locked
), gone as (
  delete from request r using old o where r.hash = o.hash returning 1
)
select count(*) from gone
