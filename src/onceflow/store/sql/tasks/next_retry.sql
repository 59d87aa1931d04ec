select extract(epoch from min(retry_at) - clock_timestamp())::float8 from task where state = 'up_for_retry'
