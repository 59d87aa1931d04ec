-- A replay of no event.
select d.dag_id, r.run_id
from run r join dag d on d.id = r.dag_id
where r.run_type = 'replay' and not exists (select 1 from run_member m where m.run_id = r.id)
order by r.id limit $1
