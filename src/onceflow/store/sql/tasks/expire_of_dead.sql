update task set lease_until = '-infinity' where state = 'running' and owner = any ($1::uuid[])
