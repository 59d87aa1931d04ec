-- G1: the identity of an event that has a key is the hash of that key.
select e.id as event, e.asset_id, e.key, e.hash from event e where e.key is not null
