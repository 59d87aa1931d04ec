-- A run that a schedule made has no slot, so that nothing keeps a second one from being made.
select d.dag_id, r.run_id
from run r join dag d on d.id = r.dag_id
where r.run_type = 'scheduled' and r.logical_date is null
order by r.id limit $1
