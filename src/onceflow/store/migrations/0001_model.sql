-- The tables of Onceflow's model and the constraints that hold the promise (G1 to G7 of ARCHITECTURE.md).
--
-- Lock order, everywhere: watcher, asset, change_key, event, dag (the consumer), delivery, run, task; by id within a
-- kind; always FOR NO KEY UPDATE. Recording an event locks no consumer, so delivery has no foreign key to dag.

create type run_state as enum ('queued', 'running', 'success', 'failed');
create type run_type as enum ('asset_triggered', 'scheduled', 'manual', 'rerun', 'replay');
comment on type run_type is 'manual, rerun and replay are made by people; the last two are lanes of their own, and touch no delivery';
create type task_state as enum ('waiting', 'ready', 'queued', 'running', 'up_for_retry',
                                'success', 'failed', 'skipped', 'upstream_failed', 'removed');
create type outcome as enum ('success', 'failed', 'skipped', 'timed_out', 'killed', 'crashed', 'stopped', 'lost');
create type disposition as enum ('pending', 'held', 'started', 'joined', 'filtered', 'superseded', 'discarded');
comment on type disposition is 'pending and held are open; the others are terminal and set once';

create table process (
  id uuid primary key,
  kind text not null,
  host text not null,
  pid int not null,
  parent_pid int not null,
  version text not null,
  started_at timestamptz not null default clock_timestamp(),
  last_seen timestamptz not null default clock_timestamp(),
  lease_until timestamptz not null,
  ready_until timestamptz not null default '-infinity',
  state text not null default 'running' check (state in ('running', 'stopped', 'dead')),
  ended_at timestamptz,
  check ((state = 'running') = (ended_at is null))
);
comment on column process.lease_until is 'renewed while the process lives';
comment on column process.ready_until is 'renewed while it does its work, too; a triggerer owns watchers so long';
create index process_running on process (kind) where state = 'running';

-- Files and what they declare ---------------------------------------------------------------------------------------

create table source (
  hash text primary key,
  content bytea not null,
  stored_at timestamptz not null default clock_timestamp()
);
comment on table source is 'the bytes of a DAG file by their hash, kept while a version or a run uses them';

create table dag_file (
  id bigint generated always as identity primary key,
  bundle text not null default 'default',
  path text not null,
  source_hash text not null default '',
  term bigint not null default 0,
  present boolean not null default true,
  failure json,
  warnings json not null default '[]',
  parsed_at timestamptz,
  parse_seconds double precision,
  unique (bundle, path)
);
comment on column dag_file.term is 'raised by every registration, which is a compare-and-set on it';

create table dag (
  id bigint generated always as identity primary key,
  dag_id text not null unique,
  file_id bigint not null references dag_file,
  version_id bigint,
  source_hash text references source,
  active boolean not null default true,
  paused boolean not null,
  schedule_kind text not null,
  max_active_runs int not null check (max_active_runs > 0),
  max_rounds int not null default 5 check (max_rounds >= 0),
  max_runs_per_minute int check (max_runs_per_minute >= 0),
  created_at timestamptz not null default clock_timestamp(),
  anchor_at timestamptz,
  next_slot_at timestamptz,
  pruned_slot timestamptz,
  ordinal bigint not null default 0,
  last_judged_at timestamptz,
  last_judgement json,
  judge_at timestamptz check (judge_at is null or starts_with(schedule_kind, 'asset:')),
  pause_id bigint,
  join_id bigint,
  minute_at timestamptz,
  minute_runs bigint not null default 0,
  storm json,
  storm_at timestamptz,
  release_id bigint,
  release_rate double precision check (release_rate > 0),
  release_at timestamptz,
  check ((storm is null) = (storm_at is null)),
  check ((release_rate is null) = (release_at is null) and (release_rate is null or storm is not null))
);
comment on column dag.max_runs_per_minute is 'how many runs its events may start in a minute before it is a storm; 0 = any number, null = as the setting says';
comment on column dag.minute_runs is 'how many they started since minute_at, without those that a person released';
comment on column dag.storm is 'what tripped its breaker: from then on its events are held, until a person releases them';
comment on column dag.release_rate is 'how many events a minute are released, as release_id says; the next at release_at';
comment on column dag.max_rounds is 'how many of its runs may be in the causes of an event that it gets; 0 = any number';
comment on column dag.source_hash is 'the file''s bytes that new runs pin; a change of code alone makes no version';
comment on column dag.ordinal is 'the last ordinal given to a run of this DAG, under this row''s lock';
comment on column dag.pruned_slot is 'the latest slot whose run went when it was old; up to there no slot is run again';
comment on column dag.next_slot_at is 'the next slot of a timed schedule; null when there is none';
comment on column dag.judge_at is 'when its waiting events are to be judged again though nothing new came; infinity = when a run has ended';
comment on column dag.pause_id is 'the intervention that paused it; kept when it ends';
comment on column dag.join_id is 'the intervention that asked for one run of the events marked with it, until that was judged';
create index dag_judge on dag (judge_at, id) where active and not paused and judge_at is not null;
create index dag_due on dag (next_slot_at) where active and not paused and next_slot_at is not null;
create index dag_continuous on dag (id) where active and not paused and schedule_kind = 'continuous';
create index dag_release on dag (release_at) where active and not paused and release_at is not null;
create index dag_of_file on dag (file_id);

create table dag_version (
  id bigint generated always as identity primary key,
  dag_id bigint not null references dag,
  number int not null,
  spec_hash text not null,
  spec json not null,
  created_at timestamptz not null default clock_timestamp(),
  unique (dag_id, number)
);
alter table dag add foreign key (version_id) references dag_version;

create table intervention (
  id bigint generated always as identity primary key,
  dag_id bigint references dag,
  watcher_id bigint,
  kind text not null check (kind in ('pause', 'unpause', 'rerun', 'replay', 'discard', 'release')),
  pending text check (pending in ('each', 'join', 'discard', 'slowly')),
  by json not null,
  reason text,
  details json not null default '{}',
  request uuid,
  made_at timestamptz not null default clock_timestamp(),
  deliveries bigint not null default 0,
  check ((kind in ('unpause', 'release')) = (pending is not null)),
  check (watcher_id is null or kind = 'release'),
  check ((dag_id is null) <> (watcher_id is null))
);
comment on table intervention is 'what a person did to a DAG or a watcher: who, when and why; deliveries = how many were concerned';
comment on column intervention.details is 'what it was about: the run that was run again, the events that were chosen, the rate of a release';
comment on column intervention.request is 'the request that asked for it, if it may be sent again';
create index intervention_dag on intervention (dag_id, id);
create unique index intervention_request on intervention (request) where request is not null;
alter table dag add foreign key (pause_id) references intervention, add foreign key (join_id) references intervention,
  add foreign key (release_id) references intervention;

-- Assets, watchers, events ------------------------------------------------------------------------------------------

create table asset (
  id bigint generated always as identity primary key,
  name text not null unique check (octet_length(name) between 1 and 1500),
  uri text not null,
  "group" text not null default 'asset',
  extra json not null default '{}',
  active boolean not null default true,
  created_at timestamptz not null default clock_timestamp(),
  rules jsonb not null default '{}',
  seq bigint not null default 0,
  pruned bigint not null default 0,
  forgotten bigint not null default 0,
  mended bigint not null default 0,
  marked boolean not null default false,
  subscribers bigint[] not null default '{}'
) with (fillfactor = 50);
comment on column asset.rules is 'what its declarations say of its changes: the key, how long events and identities are kept';
comment on column asset.seq is 'number of events so far; the next event gets seq + 1, so order by seq is order of commit';
comment on column asset.pruned is 'how many of its events went when they were old';
comment on column asset.forgotten is 'how many of their identities went, too';
comment on column asset.mended is 'how many of its events have two identities: their key, and the payload by which they were known before they got it';
comment on column asset.marked is 'some of those are known by a high-water mark';
comment on column asset.subscribers is 'ids of the DAGs that get a delivery of each event, read from the locked row';
create unique index asset_uri on asset (uri) where active and uri <> '';

create table asset_declaration (
  file_id bigint not null references dag_file on delete cascade,
  asset_id bigint not null references asset,
  uri text not null,
  place text not null,
  rules jsonb not null default '{}',
  entrance boolean not null default false,
  primary key (file_id, asset_id)
);
comment on column asset_declaration.entrance is 'events come in through this file: a task''s outlet, or a watcher';
create index asset_declaration_asset on asset_declaration (asset_id);

create table subscription (
  asset_id bigint not null references asset,
  dag_id bigint not null references dag,
  from_seq bigint not null,
  until_seq bigint,
  catching_up boolean not null default false,
  began_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  lapsed boolean not null default false,
  primary key (asset_id, dag_id, from_seq),
  check (until_seq >= from_seq),
  check (not catching_up or until_seq is not null)
);
comment on table subscription is 'interval [from_seq, until_seq) of the asset''s events that the DAG gets; null = still open';
comment on column subscription.lapsed is 'it ended because no file defined the DAG, which may have been for a moment only';
comment on column subscription.catching_up is 'events up to until_seq were replayed, the later ones follow; then the interval is opened';
create unique index subscription_open on subscription (asset_id, dag_id) where until_seq is null or catching_up;
create index subscription_catching_up on subscription (dag_id) where catching_up;
create index subscription_dag on subscription (dag_id);

create table watcher (
  id bigint generated always as identity primary key,
  definition text not null unique,
  mode text not null check (mode in ('single', 'all')),
  classpath text not null,
  kwargs json not null,
  file text not null default '',
  code text not null default '',
  generation bigint not null default 1,
  claimed_generation bigint not null default 1,
  routing bigint not null default 1,
  active boolean not null default false,
  active_since timestamptz not null default clock_timestamp(),
  silent_after double precision check (silent_after > 0),
  canary double precision check (canary > 0),
  max_events_per_minute int check (max_events_per_minute >= 0),
  storm json,
  storm_at timestamptz,
  cursor json,
  batch bigint not null default 0,
  owner uuid,
  term bigint not null default 0,
  claimed_at timestamptz,
  released_at timestamptz,
  strikes int not null default 0,
  next_try_at timestamptz not null default '-infinity',
  last_observation timestamptz,
  last_event_at timestamptz,
  last_error json,
  last_error_at timestamptz,
  unmatched bigint not null default 0,
  last_unmatched_at timestamptz,
  flawed bigint not null default 0,
  last_flawed_at timestamptz,
  last_flaw text,
  check (mode = 'single' or (owner is null and cursor is null)),
  check ((storm is null) = (storm_at is null)),
  check (storm is null or (owner is null and next_try_at = 'infinity'))
) with (fillfactor = 70);
alter table intervention add foreign key (watcher_id) references watcher;
comment on table watcher is 'a trigger with its arguments, once, whatever assets it feeds (watch) and wherever it is declared';
comment on column watcher.definition is 'hash of mode, class and arguments: the watcher''s identity';
comment on column watcher.term is 'raised by every claim; an owner''s write begins with an update that names it';
comment on column watcher.batch is 'number of the last batch stored in this term: one sent again, that comes late, moves no cursor back';
comment on column watcher.code is 'hash of what the DAG folder says about the trigger''s class; empty if it is installed';
comment on column watcher.generation is 'raised when its arguments or code change, or those of a key function, so that its owner starts it anew';
comment on column watcher.claimed_generation is 'what its owner runs; events of another one are not stored, it tells them again';
comment on column watcher.routing is 'raised when the assets it feeds or their matches change; who records names the one it judged by';
comment on column watcher.active_since is 'since when it is declared, or, if it is not active, is no longer';
comment on column watcher.silent_after is 'seconds without an observation after which it counts as silent; null: it promises none';
comment on column watcher.max_events_per_minute is 'how many it may tell in a minute before it is a storm; 0 = any number, null = as the setting says';
comment on column watcher.storm is 'what tripped its breaker: it is not run, with its cursor where it was, until a person releases it';
comment on column watcher.canary is 'seconds from one synthetic change to the next; null: none';
comment on column watcher.unmatched is 'changes that matched none of its assets: acknowledged, and no events';
comment on column watcher.flawed is 'changes that it told which are in quarantine: acknowledged, and events that are held';
comment on column watcher.last_flaw is 'what is wrong with the last change that it told; null: nothing';
create index watcher_owner on watcher (owner) where owner is not null;
create index watcher_free on watcher (next_try_at) where active and mode = 'single' and owner is null;
create index watcher_all on watcher (id) where active and mode = 'all';
create index watcher_undeclared on watcher (active_since) where not active;

create table watching (
  watcher_id bigint not null references watcher on delete cascade,
  owner uuid not null,
  running boolean not null default true,
  term bigint not null default 1,
  generation bigint not null,
  claimed_at timestamptz not null default clock_timestamp(),
  strikes int not null default 0,
  next_try_at timestamptz not null default '-infinity',
  last_observation timestamptz,
  last_event_at timestamptz,
  last_error json,
  last_error_at timestamptz,
  primary key (watcher_id, owner)
) with (fillfactor = 70);
comment on table watching is 'which triggerers run a watcher of mode all; the row of a dead one goes';
create index watching_owner on watching (owner);

create table canary (
  watcher_id bigint primary key references watcher on delete cascade,
  made_at timestamptz not null,
  noticed_at timestamptz not null,
  stored_at timestamptz not null default clock_timestamp(),
  judged_at timestamptz,
  delay double precision
) with (fillfactor = 70);
comment on table canary is 'a watcher''s last synthetic change: made, noticed by its trigger''s next look, stored, and seen by a scheduler that had judged all that its assets were told before. It is no event: nothing is delivered, nothing runs';
comment on column canary.delay is 'seconds that the last one that was judged took from end to end';
create index canary_open on canary (watcher_id) where judged_at is null;

create table watch (
  asset_id bigint not null references asset,
  name text not null,
  watcher_id bigint not null references watcher,
  match json,
  key jsonb,
  key_file text not null default '',
  key_code text not null default '',
  active boolean not null default true,
  primary key (asset_id, name)
);
comment on column watch.key is 'what of its payloads identifies a change, if the watcher itself declares it for the asset';
comment on column watch.key_file is 'the DAG file whose key function, of watcher or asset, its events need; empty if none';
comment on column watch.key_code is 'hash of that file';
comment on table watch is 'an asset that a watcher feeds, under the name it has there; match says with which of its changes, null: all';
create index watch_watcher on watch (watcher_id);

create table watch_declaration (
  file_id bigint not null references dag_file on delete cascade,
  asset_id bigint not null,
  name text not null,
  definition text not null,
  place text not null,
  primary key (file_id, asset_id, name),
  foreign key (asset_id, name) references watch
);
comment on column watch_declaration.definition is 'hash of the watcher''s definition, match and key: files may not contradict each other';
create index watch_declaration_watch on watch_declaration (asset_id, name);

create table event (
  id bigint generated always as identity primary key,
  asset_id bigint not null references asset,
  seq bigint not null,
  key text check (octet_length(key) between 1 and 1024),
  extra json not null,
  source json not null,
  sighting uuid not null,
  hash uuid not null,
  created_at timestamptz not null default clock_timestamp(),
  unique (asset_id, seq)
);
comment on column event.hash is 'what holds its identity in change_key';
create index event_created on event (created_at);

create table change_key (
  asset_id bigint not null references asset,
  hash uuid not null,
  event_id bigint not null,
  primary key (asset_id, hash)
);
comment on table change_key is 'identity of every change (128-bit BLAKE2b), the only arbiter; outlives its event';

create table witness (
  sighting uuid primary key,
  event_id bigint not null references event on delete cascade,
  source json not null,
  differs boolean not null,
  seen_at timestamptz not null default clock_timestamp()
);
comment on table witness is 'later sightings of an event; the first is the event itself';
create index witness_event on witness (event_id);

create table request (
  hash uuid primary key,
  body uuid not null,
  status int,
  answer text,
  created_at timestamptz not null default clock_timestamp(),
  check ((status is null) = (answer is null))
);
comment on table request is 'requests to the API by their Idempotency-Key, with the answer that is replayed; kept for a while';
create index request_created on request (created_at);

create table quarantine (
  event_id bigint primary key references event on delete cascade,
  flaw text not null,
  extra json not null,
  stand_in uuid,
  same_as bigint,
  held_at timestamptz not null,
  released_at timestamptz,
  released_by json,
  reason text,
  check ((released_at is null) = (released_by is null)),
  check (same_as is null or (stand_in is not null and released_at is not null))
);
comment on table quarantine is 'events whose payload breaks the schema of their asset, or does not give the key that it should; extra = the payload as it came';
comment on column quarantine.stand_in is 'hash of a payload that gave no key: one more identity of the event, and the only one until it gets a key';
comment on column quarantine.same_as is 'the event that had the key when this one got it: the same change, so this one starts nothing';
create index quarantine_open on quarantine (event_id) where released_at is null;

-- Deliveries, decisions, runs ---------------------------------------------------------------------------------------

create table delivery (
  event_id bigint not null references event,
  dag_id bigint not null,
  asset_id bigint not null,
  disposition disposition not null default 'pending',
  judged boolean not null default false,
  reason text,
  run_id bigint,
  decided_at timestamptz,
  intervention_id bigint references intervention,
  primary key (event_id, dag_id),
  check ((disposition in ('started', 'joined')) = (run_id is not null) or (disposition = 'joined' and reason = 'pruned')),
  check ((disposition in ('pending', 'held')) = (decided_at is null)),
  check (disposition not in ('held', 'filtered', 'superseded', 'discarded') or reason is not null),
  check (judged or disposition <> 'held'),
  check (disposition <> 'discarded' or intervention_id is not null or starts_with(reason, 'the same change as event '))
) with (fillfactor = 70);
comment on column delivery.intervention_id is 'what a person did that let it go on, or discarded it';
create index delivery_unjudged on delivery (dag_id, event_id) where disposition = 'pending' and not judged;
create index delivery_waiting on delivery (dag_id, disposition, asset_id, event_id)
  where judged and disposition in ('pending', 'held');
comment on index delivery_unjudged is 'the work of the schedulers; what is open is in this index or in delivery_waiting';
create unique index delivery_starter on delivery (run_id) where disposition = 'started';
create index delivery_run on delivery (run_id, event_id) where run_id is not null;

create function refuse_second_disposition() returns trigger language plpgsql as $$
begin
  raise exception 'delivery of event % to dag % is already %', old.event_id, old.dag_id, old.disposition
    using errcode = 'OF003';
end $$;
create trigger disposition_set_once before update on delivery for each row
  when (old.decided_at is not null
        and (new.disposition is distinct from old.disposition or new.run_id is distinct from old.run_id)
        and not (old.disposition = 'joined' and new.disposition = 'joined' and new.run_id is null))
  execute function refuse_second_disposition();

create table decision (
  id bigint generated always as identity primary key,
  dag_id bigint not null references dag,
  version_id bigint not null references dag_version,
  decided_at timestamptz not null default clock_timestamp(),
  process_id uuid,
  explanation json not null
);
comment on column decision.process_id is 'the scheduler that decided; null = a person did, by a replay';
comment on table decision is 'why runs were created: condition, policy and what was pending, as judged';

create table judgement (
  id bigint generated always as identity primary key,
  dag_id bigint not null references dag,
  version_id bigint references dag_version,
  judged_at timestamptz not null,
  process_id uuid not null,
  explanation json not null
);
comment on table judgement is 'judgements without a run, each with another verdict than the one before it; counts of the last are in dag.last_judgement';
create index judgement_dag on judgement (dag_id, judged_at);
create index judgement_at on judgement (judged_at);

-- A run is mostly started in the transaction that makes it: its references are looked up when that commits, so once.
create table run (
  id bigint generated always as identity primary key,
  dag_id bigint not null references dag deferrable initially deferred,
  run_id text not null,
  run_type run_type not null,
  state run_state not null default 'queued',
  ordinal bigint not null,
  logical_date timestamptz,
  start_event bigint,
  decision_id bigint references decision deferrable initially deferred,
  version_id bigint references dag_version,
  source_hash text references source,
  conf json,
  created_by json not null,
  request uuid,
  intervention_id bigint references intervention,
  of_run bigint references run on delete set null,
  downstream text not null default 'emit' check (downstream in ('emit', 'hold', 'tag')),
  pruned_events int not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  started_at timestamptz,
  deadline_at timestamptz,
  finished_at timestamptz,
  end_reason text,
  unique (dag_id, run_id),
  unique (dag_id, ordinal),
  foreign key (start_event, dag_id) references delivery (event_id, dag_id) deferrable initially deferred,
  check ((run_type = 'asset_triggered') = (start_event is not null)),
  check (start_event is null or logical_date is null),
  check ((state in ('success', 'failed')) = (finished_at is not null)),
  check ((state = 'queued') = (started_at is null)),
  check (state = 'queued' or version_id is not null),
  check ((run_type in ('rerun', 'replay')) = (intervention_id is not null)),
  check (of_run is null or run_type = 'rerun'),
  check (downstream = 'emit' or intervention_id is not null)
) with (fillfactor = 80);
comment on column run.of_run is 'the run that was run again; null when that is gone';
comment on column run.pruned_events is 'how many of its events went when they were old, while it is kept: it cannot be run again';
comment on column run.downstream is 'what becomes of the events that it makes: emit = as of any run, hold = consumers get them held, tag = their source names the lane';
create index run_of on run (of_run) where of_run is not null;

-- What a foreign key from delivery.run_id would do, once per statement instead of once per row: a run may take tens of
-- thousands of deliveries, and to look it up again for each takes as long as to write them.
create function see_runs_of_deliveries() returns trigger language plpgsql as $$
declare named bigint[]; found_ int;
begin
  if tg_level = 'ROW' then
    named := array[new.run_id];
  else
    named := array(select c.run_id from changed c where c.run_id is not null group by c.run_id);
  end if;
  if named <> '{}' then
    perform 1 from run r where r.id = any (named) order by r.id for key share; -- none of them goes before we commit
    get diagnostics found_ = row_count;
    if found_ <> cardinality(named) then
      raise exception 'a delivery is in a run that does not exist' using errcode = 'foreign_key_violation', table = 'delivery';
    end if;
  end if;
  return null;
end $$;
create trigger run_exists after update on delivery referencing new table as changed for each statement
  execute function see_runs_of_deliveries();
create trigger run_exists_at_first after insert on delivery for each row when (new.run_id is not null)
  execute function see_runs_of_deliveries();

create function keep_run_of_deliveries() returns trigger language plpgsql as $$
begin
  perform 1 from delivery y where y.run_id = old.id limit 1;
  if found then
    raise exception 'run % still has deliveries', old.id using errcode = 'foreign_key_violation', table = 'run';
  end if;
  return null;
end $$;
create trigger has_no_deliveries after delete or update of id on run for each row execute function keep_run_of_deliveries();

create index run_queued on run (dag_id, ordinal) where state = 'queued';
create index run_running on run (dag_id) where state = 'running';
create index run_decision on run (decision_id) where decision_id is not null;
create index run_ended on run (finished_at) where start_event is null and finished_at is not null;
create index run_deadline on run (deadline_at) where state = 'running' and deadline_at is not null;
create unique index run_start_event on run (dag_id, start_event) where start_event is not null;
create unique index run_request on run (request) where request is not null;
comment on column run.request is 'the request that made a run by hand, if it may be sent again';
create unique index run_slot on run (dag_id, logical_date) where logical_date is not null and run_type <> 'rerun';

create table run_member (
  run_id bigint not null references run on delete cascade,
  event_id bigint not null references event,
  primary key (run_id, event_id)
);
comment on table run_member is 'the events of a run that was not made from deliveries: of a rerun, of a replay';
create index run_member_event on run_member (event_id);

create table cause (
  event_id bigint primary key references event on delete cascade,
  run_id bigint references run on delete set null,
  rounds jsonb not null
);
comment on table cause is 'of an event that a task made: its run, and through which DAGs the change has come';
comment on column cause.rounds is 'how many runs of each DAG are in the longest chain of causes, by the DAG''s id; its own is one of them';
create index cause_run on cause (run_id) where run_id is not null;

-- Tasks, attempts, values -------------------------------------------------------------------------------------------

create table task (
  id bigint generated always as identity primary key,
  run_id bigint not null references run on delete cascade,
  task_no int not null,
  task_id text not null,
  map_index int not null default -1,
  state task_state not null,
  settled boolean not null default true,
  attempt int not null default 0,
  failures int not null default 0,
  losses int not null default 0,
  priority int not null default 1,
  executor text not null default 'local',
  queue text not null default 'default',
  owner uuid,
  token uuid,
  lease_until timestamptz,
  retry_at timestamptz,
  queued_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  unique (run_id, task_no, map_index),
  check ((state = 'running') = (owner is not null)),
  check ((owner is null) = (lease_until is null)),
  check ((state = 'up_for_retry') = (retry_at is not null)),
  check (attempt >= failures + losses)
) with (fillfactor = 60);
comment on column task.settled is 'false from the end of a task until the scheduler has drawn its consequences';
create index task_queued on task (executor, queue, priority desc, id) where state = 'queued';
create index task_unsettled on task (run_id) where not settled;
create index task_retry on task (retry_at) where state = 'up_for_retry';
create index task_lease on task (lease_until) where state = 'running';

create table attempt (
  task_id bigint not null references task on delete cascade,
  number int not null,
  token uuid not null,
  worker uuid not null,
  started_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  outcome outcome,
  exit_code int,
  error json,
  primary key (task_id, number),
  check ((outcome is null) = (finished_at is null))
) with (fillfactor = 70);

create table xcom (
  run_id bigint not null references run on delete cascade,
  task_id text not null,
  map_index int not null default -1,
  key text not null,
  value json not null,
  attempt int not null,
  stored_at timestamptz not null default clock_timestamp(),
  primary key (run_id, task_id, map_index, key)
);
