select x.value from xcom x join run r on r.id = x.run_id
where x.run_id = coalesce((select o.id from run o where o.dag_id = (select dag_id from run where id = $1) and o.run_id = $5), $1)
  and x.task_id = $2 and x.key = $3 and x.map_index = $4
