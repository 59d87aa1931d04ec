-- The DAG by its id or, if that is new, by the id it had before.
select d.id, d.dag_id, d.file_id, d.active, d.version_id, d.next_slot_at, d.anchor_at, d.created_at, f.path, f.present,
  f.failure is not null as broken, v.spec_hash, v.spec, v.number
from dag d join dag_file f on f.id = d.file_id left join dag_version v on v.id = d.version_id
where d.dag_id = $1 or (d.dag_id = $2 and $2 <> '' and not exists (select 1 from dag o where o.dag_id = $1))
for no key update of d
