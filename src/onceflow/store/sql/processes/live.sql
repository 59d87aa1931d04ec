select count(*) from process where kind = $1 and state = 'running' and lease_until > clock_timestamp()
