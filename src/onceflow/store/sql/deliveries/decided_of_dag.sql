-- What became of a DAG's deliveries since a time: how many, per disposition and reason. $1 dag, $2 since, $3 limit.
select y.disposition, y.reason, count(*) as deliveries from delivery y
where y.dag_id = $1 and y.decided_at >= $2 group by 1, 2 order by 3 desc, 1, 2 limit $3
