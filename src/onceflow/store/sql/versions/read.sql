select v.id, v.spec, v.source_hash from dag_version v where v.id = any ($1::bigint[])
