-- Transactions of a role that stand open while their client says nothing. $1 the role.
select a.pid, a.xact_start from pg_stat_activity a
where a.datname = current_database() and a.application_name = $1 and a.state like 'idle in transaction%'
