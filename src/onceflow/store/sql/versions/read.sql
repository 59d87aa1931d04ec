select v.id, v.spec from dag_version v where v.id = any ($1::bigint[])
