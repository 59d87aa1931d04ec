-- Those whose lease ran out, or that their parent saw die, are dead; what they own is free to be taken at once.
update process set state = 'dead', ended_at = clock_timestamp()
where state = 'running' and (id = any ($1::uuid[]) or $2 and lease_until < clock_timestamp()) returning id, kind
