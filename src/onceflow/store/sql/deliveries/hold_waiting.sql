-- Holds what was judged and waits for locked consumers whose breaker has tripped. $1 dags.
update delivery y set disposition = 'held', reason = 'storm'
where y.dag_id = any ($1::bigint[]) and y.disposition = 'pending' and y.judged
