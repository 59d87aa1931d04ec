update process set state = 'stopped', ended_at = clock_timestamp() where id = $1 and state = 'running'
