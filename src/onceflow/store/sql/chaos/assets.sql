-- Assets of which anybody may tell a change, and those whose watcher alone may, as it goes by their order.
select a.name, a.rules ->> 'protection' is not distinct from 'high-water' as closed from asset a where a.active order by a.name
