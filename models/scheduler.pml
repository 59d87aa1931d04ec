/* Schedulers: create asset runs (scheduler/create_asset_runs.py and judge_consumers.py, claim_deliveries and create_asset_runs in
   0002_functions.sql, store/sql/deliveries/*.sql). Consumers of policy Each come before those of policy All; ALL_FROM is
   the first of these. An All's condition is A & B, where IN_A and IN_B are the sets of the changes of the two assets;
   an Each's is A | B. One transaction handles all consumers that it finds, as one batch. */

bool dag_locked[CONSUMERS];
bool paused[CONSUMERS];
byte runs[CONSUMERS];         /* run.start_event, sets of changes */
byte taken[CONSUMERS];        /* the deliveries that are in a run, for the assertions */

#define UNJUDGED(k) (pending[k] & ~judged[k])
#define HOLDS(events) (((events) & IN_A) != 0 && ((events) & IN_B) != 0)
#define LOWEST(set) ((set) & -(set))
/* The event that completed A & B: the later of the two that came first on their asset. */
#define COMPLETING(e) (LOWEST((e) & IN_A) > LOWEST((e) & IN_B) -> LOWEST((e) & IN_A) : LOWEST((e) & IN_B))

#ifndef CREATED
#define CREATED(k, start) skip                   /* what a model does about a new run */
#endif

/* The statement that reads. Of an Each only what nobody judged, and as many as a batch may have: all, or just one. */
inline read_pending() {
  k = 0;
  do
  :: k < CONSUMERS ->
     if
     :: HAS(mine, k) && k < ALL_FROM -> if :: seen[k] = UNJUDGED(k) :: seen[k] = LOWEST(UNJUDGED(k)) fi
     :: HAS(mine, k) && k >= ALL_FROM -> seen[k] = pending[k]
     :: else
     fi;
     if
     :: HAS(mine, k) && paused[k] -> on_hold = on_hold | BIT(k)
     :: else
     fi;
     k++
  :: else -> break
  od;
  k = 0
}

/* What is judged: for an Each what was read, for an All the same if the condition holds, else nothing. */
#define JUDGED_RUN(k) ((k) < ALL_FROM -> seen[k] : (HOLDS(seen[k]) -> seen[k] : 0))

/* create_asset_runs: runs, then the members' dispositions; the row count must match. */
inline consume(k, members) {
#ifdef NO_CONSTRAINTS
  assert((taken[k] & members) == 0);                         /* G3: one run per event and consumer */
  assert(k < ALL_FROM || HOLDS(members & pending[k]));       /* G4: no early AND */
#else
  assert((members & ~pending[k]) == 0);                      /* G4: judged on facts, so that OF002 is never raised */
  assert((taken[k] & members) == 0);                         /* G3: one run per event and consumer */
#endif
  taken[k] = taken[k] | members;
  if
  :: k < ALL_FROM ->
     assert((runs[k] & members) == 0);                       /* G3: unique (dag_id, start_event) */
     runs[k] = runs[k] | members;
     started[k] = started[k] | members;
     CREATED(k, members)
  :: else ->
     assert((runs[k] & COMPLETING(members)) == 0);           /* G3: unique (dag_id, start_event) */
     runs[k] = runs[k] | COMPLETING(members);
     started[k] = started[k] | COMPLETING(members);
     joined[k] = joined[k] | (members & ~COMPLETING(members));
     CREATED(k, COMPLETING(members))
  fi;
  pending[k] = pending[k] & ~members;
  judged[k] = judged[k] | members
}

/* The writes of one transaction become visible together, and its locks are gone. */
inline write_judged() {
  k = 0;
  do
  :: k < CONSUMERS ->
     if
     :: HAS(mine, k) && HAS(on_hold, k) ->                   /* deliveries/hold */
        held[k] = held[k] | (seen[k] & pending[k]); judged[k] = judged[k] | (seen[k] & pending[k]);
        pending[k] = pending[k] & ~seen[k]
     :: HAS(mine, k) && !HAS(on_hold, k) && JUDGED_RUN(k) != 0 -> consume(k, seen[k])
     :: HAS(mine, k) && !HAS(on_hold, k) && JUDGED_RUN(k) == 0 ->
#ifdef NO_EXACT_JUDGED
        judged[k] = judged[k] | pending[k]
#else
        judged[k] = judged[k] | (seen[k] & pending[k])       /* deliveries/mark_judged: exactly those that were read */
#endif
     :: else
     fi;
     seen[k] = 0;
     k++
  :: else -> break
  od;
  k = 0
}

inline unlock_consumers() {
  k = 0;
  do
  :: k < CONSUMERS -> if :: HAS(mine, k) -> dag_locked[k] = false :: else fi; seen[k] = 0; k++
  :: else -> break
  od;
  k = 0; mine = 0; on_hold = 0
}

/* With RAISES the constraints are what they are in the database: a transaction that breaks one changes nothing. */
#define STALE(k) (HAS(mine, k) && !HAS(on_hold, k) && (JUDGED_RUN(k) & ~pending[k]) != 0)
#if CONSUMERS == 1
#define ANY_STALE STALE(0)
#define ANY_UNJUDGED (UNJUDGED(0) != 0)
#define FOUND (UNJUDGED(0) != 0 -> 1 : 0)
#define FREE (HAS(found, 0) && !dag_locked[0])
#else
#define ANY_STALE (STALE(0) || STALE(1))
#define ANY_UNJUDGED (UNJUDGED(0) != 0 || UNJUDGED(1) != 0)
#define FOUND ((UNJUDGED(0) != 0 -> 1 : 0) | (UNJUDGED(1) != 0 -> 2 : 0))
#define FREE (HAS(found, 0) && !dag_locked[0] || HAS(found, 1) && !dag_locked[1])
#endif

/* Locks those of the found consumers that nobody else holds. */
inline lock_free() {
  k = 0; mine = 0;
  do
  :: k < CONSUMERS -> if :: HAS(found, k) && !dag_locked[k] -> mine = mine | BIT(k) :: else fi; k++
  :: else -> break
  od;
  k = 0
}

inline take_locks() {
  k = 0;
  do
  :: k < CONSUMERS -> if :: HAS(mine, k) -> dag_locked[k] = true :: else fi; k++
  :: else -> break
  od;
  k = 0
}

proctype CreateAssetRuns() {
  byte k, found, mine, on_hold;
  byte seen[CONSUMERS];
end:
  do
  :: atomic { ANY_UNJUDGED -> found = FOUND };               /* deliveries/find_consumers, before the transaction */
#ifdef NO_REREAD
     /* one statement that locks and reads: its snapshot is older than its locks */
     atomic { mine = found; read_pending(); mine = 0 };
     atomic { FREE -> lock_free(); found = 0; take_locks() };
#else
     atomic { FREE -> lock_free(); found = 0; take_locks() };
     atomic { true -> read_pending() };                      /* a later statement, with a snapshot of its own */
#endif
     if
     :: atomic {
          true ->
#ifdef RAISES
          if
          :: ANY_STALE
          :: else -> write_judged()
          fi;
#else
          write_judged();
#endif
          unlock_consumers()
        }
     /* killed, frozen until the database gives it up, or cut off: nothing was written. (Cut off after the commit: it
        remembers nothing, so that is as if it had been told.) */
     :: atomic { faults > 0 -> faults--; unlock_consumers() }
     fi
  od
}
