-- Files that cannot be parsed now, with the DAGs that keep their last good version. $1 limit.
select f.bundle, f.path, f.failure, f.parsed_at,
       coalesce((select array_agg(d.dag_id order by d.dag_id) from dag d where d.file_id = f.id and d.active), '{}') as dags
from dag_file f
where f.failure is not null and f.present
order by f.bundle, f.path limit $1
