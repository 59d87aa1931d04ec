-- In the database of those who use `Effect.claim`: one row for each effect that has happened.
create table if not exists onceflow_effect (
  id uuid primary key,
  dag_id text not null,
  run_id text not null,
  task_id text not null,
  map_index int not null,
  name text not null,
  attempt int not null,
  fence_token uuid not null,
  done_at timestamptz not null default clock_timestamp()
)
