create table if not exists migration (
  number int primary key,
  name text not null,
  breaking boolean not null,
  digest text not null,
  applied_at timestamptz not null default clock_timestamp()
)
