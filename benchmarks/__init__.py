"""What Onceflow costs and how fast it is, measured on the real thing: `python -m benchmarks`, or `make bench`.

Every measure starts `onceflow standalone` in a home of its own with an embedded PostgreSQL, on DAG files it writes,
and reads its results from the database. The yardstick (`yardstick.py`) is the same for every system that is compared:

- zero is the commit of the event: the answer to the emitting call, or the event row's time for outlets;
- a run's row has its `created_at`, its end has `finished_at`;
- user code starts when the first line of the task appends `time.time()` to one O_APPEND file;
- memory is PSS over all processes of the system, PostgreSQL listed apart;
- CPU is user + system time of all processes, those that ended included, as a share of one core.
"""
