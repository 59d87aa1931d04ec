update watcher set owner = null, lease_until = null where owner = any ($1::uuid[])
