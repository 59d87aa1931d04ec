-- Watchers of mode single that this process owns; null: that anybody owns. $1 owner.
select w.id from watcher w where w.active and w.mode = 'single' and w.owner is not null and ($1::uuid is null or w.owner = $1)
