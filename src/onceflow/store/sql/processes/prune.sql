delete from process where state <> 'running' and ended_at < clock_timestamp() - make_interval(secs => $1)
