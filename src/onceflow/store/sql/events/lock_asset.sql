-- Locks the asset of an event, as who records; what stands for it then. $1 event.
select a.id, a.rules from asset a where a.id = (select e.asset_id from event e where e.id = $1) for no key update
