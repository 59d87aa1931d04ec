-- Payloads of events, in order: of the first of them, no more than $2 bytes together, or one. They are not unpacked to be
-- measured: what is stored compressed counts twenty times. $1 events, $2 bytes.
select x.id, x.extra
from (
  select e.id, e.extra, row_number() over in_order as n,
         sum(pg_column_size(e.extra) * case when pg_column_compression(e.extra) is null then 1 else 20 end) over in_order as bytes
  from event e where e.id = any ($1::bigint[]) window in_order as (order by e.id rows unbounded preceding)
) x
where x.n = 1 or x.bytes <= $2 order by x.id
