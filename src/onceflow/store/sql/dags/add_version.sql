insert into dag_version (dag_id, number, spec_hash, spec)
select $1, coalesce(max(v.number), 0) + 1, $2, $3::json from dag_version v where v.dag_id = $1 returning id
