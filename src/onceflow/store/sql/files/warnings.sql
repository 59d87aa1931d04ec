-- What the authors of DAG files should know, one row each. $1 limit.
select f.bundle, f.path, w.warning from dag_file f cross join lateral json_array_elements_text(f.warnings) with ordinality as w (warning, n)
where f.present order by f.bundle, f.path, w.n limit $1
