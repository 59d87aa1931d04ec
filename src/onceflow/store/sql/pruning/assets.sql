-- Assets whose events are kept for a time only, in seconds. $1 what holds for those whose rules say nothing, null = for ever.
select a.id, coalesce((a.rules ->> 'retention')::double precision, $1) as seconds
from asset a
where a.seq > a.pruned and coalesce((a.rules ->> 'retention')::double precision, $1) is not null
order by a.id
