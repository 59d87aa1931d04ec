select d.id, d.dag_id, d.active from dag d where d.file_id = $1
