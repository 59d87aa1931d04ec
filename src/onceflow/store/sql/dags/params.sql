-- The declared parameters of an active DAG: their schemas by name. $1 dag_id.
select v.spec -> 'param_schemas' as schemas from dag d join dag_version v on v.id = d.version_id where d.dag_id = $1 and d.active
