-- Two intervals of one subscription that overlap: an event in both would have to be delivered twice.
select a.name as asset, s.dag_id as dag, s.from_seq, t.from_seq as other_from_seq
from subscription s
join subscription t on t.asset_id = s.asset_id and t.dag_id = s.dag_id and t.from_seq > s.from_seq
                       and (s.until_seq is null or t.from_seq < s.until_seq)
join asset a on a.id = s.asset_id
order by 1, 2, 3 limit $1
