-- What `db check` needs to know of the server.
select current_setting('server_version') as version, current_setting('fsync') as fsync,
       current_setting('synchronous_commit') as synchronous_commit, current_setting('full_page_writes') as full_page_writes,
       current_setting('jit') as jit, current_setting('max_connections')::int as max_connections,
       pg_is_in_recovery() as standby, current_database() as database, pg_backend_pid() as backend
