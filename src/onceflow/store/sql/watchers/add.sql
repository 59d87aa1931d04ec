-- Watchers not known yet. They become active when it is clear where they begin.
insert into watcher (definition, mode, classpath, kwargs, file, code)
select u.definition, u.mode, u.classpath, u.kwargs::json, u.file, u.code
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) as u (definition, mode, classpath, kwargs, file, code)
order by u.definition on conflict (definition) do nothing
