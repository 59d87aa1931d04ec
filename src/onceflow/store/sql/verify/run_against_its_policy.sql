-- G4: a run has other members than the policy allows by which it was made: one (each), max_size (window), one per asset (latest).
with made as materialized (
  select c.id, c.explanation ->> 'policy' as policy, (c.explanation -> 'window' ->> 'max_size')::int as max_size
  from decision c
  where strpos(c.explanation::text, '\u0000') = 0 and c.explanation -> 'resumed' is null
), counted as (
  select r.id, m.policy, m.max_size, count(*) as members, count(distinct y.asset_id) as assets
  from run r join made m on m.id = r.decision_id join delivery y on y.run_id = r.id
  where m.policy in ('each', 'latest') or m.max_size is not null
  group by r.id, m.policy, m.max_size
)
select d.dag_id, r.run_id, c.policy, c.max_size, c.members, c.assets
from counted c join run r on r.id = c.id join dag d on d.id = r.dag_id
where c.policy = 'each' and c.members > 1 or c.members > c.max_size or c.policy = 'latest' and c.members > c.assets
order by r.id limit $1
