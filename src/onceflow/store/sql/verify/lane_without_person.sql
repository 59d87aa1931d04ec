-- A rerun or replay without the record of who wanted it, or with one of another kind or DAG.
select d.dag_id, r.run_id, r.run_type, i.kind as intervention, i.dag_id as intervention_dag
from run r
join dag d on d.id = r.dag_id
left join intervention i on i.id = r.intervention_id
where (r.run_type in ('rerun', 'replay') or r.intervention_id is not null)
  and (i.id is null or i.kind <> r.run_type::text or i.dag_id <> r.dag_id)
order by r.id limit $1
