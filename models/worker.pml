/* Workers and what schedulers do with tasks (worker/*.py, scheduler/{advance_runs,rescue}.py, store/sql/tasks/*.sql and
   finish_attempts, rescue_tasks, advance_tasks, expire_runs in 0002_functions.sql). One run with TASKS tasks that depend
   on nothing; each has an outlet event when it succeeds, which is the change OUT(task) of asset OUT_ASSET. The model
   that includes this says TASKS (1 or 2), WORKERS (2), OUT and OUT_ASSET. */

#ifndef OUT_SIGHTING
#define OUT_SIGHTING(x) (x)
#endif
#ifndef LOST_LIMIT
#define LOST_LIMIT 2          /* model/states.py has 3; with 2 the models reach it */
#endif
#ifndef RETRIES
#define RETRIES 1             /* of the user's */
#endif
#define ATTEMPTS 4            /* attempts of a task that a model has room for */
#define X(t, number) ((t) * ATTEMPTS + (number) - 1)         /* an attempt, which is its token, too */

mtype = { ABSENT, QUEUED, RUNNING, RETRY, SUCCESS, FAILED, SKIPPED, STOPPED };

bool task_locked[TASKS];
mtype state[TASKS] = ABSENT;
bool settled[TASKS] = true;
byte attempt[TASKS];
byte holder[TASKS] = NOBODY;  /* task.owner */
bool task_leased[TASKS];
byte failures[TASKS];
byte losses[TASKS];
byte decided;                 /* attempt.outcome is set: a set of attempts */
mtype said[TASKS * ATTEMPTS] = ABSENT;           /* how the guest of an attempt in line ended */

bool run_locked;
mtype run_state = ABSENT;

byte running[WORKERS];        /* Guests.running, a set of attempts */
byte line[WORKERS];           /* Guests.reports, a set of attempts whose guests have ended */
byte reporting[WORKERS];      /* the session whose answer is awaited; 0 = none */

#define NOW(t) X(t, attempt[t])
#define ENDED(s) (s == SUCCESS || s == FAILED || s == SKIPPED)
#define KNOWN(t) (HAS(running[0], NOW(t)) || HAS(running[1], NOW(t)))
#define IN_LINE(t) (HAS(line[0], NOW(t)) || HAS(line[1], NOW(t)))
#define REPORTS(batch, t) (((batch) >> X(t, 1)) & 15)        /* those of one task */

inline set_outcome(x) {
  assert(!HAS(decided, x));                                  /* G6: one outcome per attempt */
  decided = decided | BIT(x)
}

/* Out of the line, with what they said. */
inline take_out(reports) {
  x = 0;
  do
  :: x < TASKS * ATTEMPTS -> if :: HAS(line[w] & reports, x) -> said[x] = ABSENT :: else fi; x++
  :: else -> x = 0; break
  od;
  line[w] = line[w] & ~(reports)
}

inline finish_one(x, t) {
  set_outcome(x);
  if
  :: said[x] == SUCCESS -> store(OUT(t), OUT_SIGHTING(x), subscribers[OUT_ASSET]); state[t] = SUCCESS
  :: said[x] == STOPPED -> state[t] = QUEUED
  :: said[x] == FAILED && failures[t] < RETRIES -> state[t] = RETRY; failures[t]++
  :: said[x] == FAILED && failures[t] >= RETRIES -> state[t] = FAILED; failures[t]++
  fi;
  settled[t] = (state[t] == RETRY || state[t] == QUEUED); holder[t] = NOBODY; task_leased[t] = false
}

/* finish_attempts. Like every session it lives on the server. It locks the asset of the outlet events, then the tasks by
   id: those rows of which a report is valid. All that follows the last lock is one step. */
proctype FinishAttempts(byte w, batch) {
  byte t, x, valid, mine, consumer;
  if
  :: atomic { batch != 0 && !asset_locked[OUT_ASSET] -> asset_locked[OUT_ASSET] = true }
  fi;
  do
  :: t < TASKS && REPORTS(batch, t) == 0 -> t++
  :: t < TASKS && REPORTS(batch, t) != 0 ->
     atomic {
       !task_locked[t] ->
#ifdef NO_ATTEMPT_CAS
       valid = valid | (batch & (15 << X(t, 1)));
#else
       if
#ifdef NO_TOKEN
       :: state[t] == RUNNING && holder[t] == w -> valid = valid | (batch & (15 << X(t, 1)))
#else
#ifdef VALID_BY_TASK
       :: state[t] == RUNNING && holder[t] == w && HAS(batch, NOW(t)) -> valid = valid | (batch & (15 << X(t, 1)))
#else
       :: state[t] == RUNNING && holder[t] == w && HAS(batch, NOW(t)) -> valid = valid | BIT(NOW(t))
#endif
#endif
       :: else
       fi;
#endif
       if
       :: REPORTS(valid, t) != 0 -> task_locked[t] = true; mine = mine | BIT(t)
       :: else
       fi;
       t++
     }
  :: t == TASKS -> break
  od;
  atomic {
    true ->
    x = 0;
    do
    :: x < TASKS * ATTEMPTS ->
       if
       :: HAS(valid, x) -> finish_one(x, x / ATTEMPTS)
       :: else
       fi;
       x++
    :: else -> break
    od;
    t = 0;
    do
    :: t < TASKS -> if :: HAS(mine, t) -> task_locked[t] = false :: else fi; t++
    :: else -> break
    od;
    asset_locked[OUT_ASSET] = false;
    if
    :: reporting[w] == _pid -> reporting[w] = 0; take_out(batch)
    :: else
    fi
  }
}

#define CLAIMS(t) (state[t] == QUEUED && !task_locked[t] && (w == 0 || attempt[0] > 0))   /* one of them is the first */
#define RENEWS(t) (state[t] == RUNNING && holder[t] == w && HAS(running[w], NOW(t)))
#define OTHERS(t) (RENEWS(t) -> (15 << X(t, 1)) & ~BIT(NOW(t)) : 15 << X(t, 1))
#define FENCED(t) ((running[w] & (OTHERS(t))) != 0)

inline claim(which) {
  assert(attempt[which] < ATTEMPTS);                         /* bound */
  attempt[which]++; state[which] = RUNNING; holder[which] = w; task_leased[which] = true
}

proctype Worker(byte w) {
  byte t;
end:
  do
  /* tasks/claim */
  :: atomic { CLAIMS(0) -> t = 0; claim(t); running[w] = running[w] | BIT(NOW(t)); t = 0 }
  :: atomic { CLAIMS(0) && faults > 0 -> faults--; claim(0) }            /* the answer is lost */
#if TASKS == 2
  :: atomic { CLAIMS(1) -> t = 1; claim(t); running[w] = running[w] | BIT(NOW(t)); t = 0 }
  :: atomic { CLAIMS(1) && faults > 0 -> faults--; claim(1) }
#endif

  /* a guest ends: its user's code succeeded or failed, or the worker was told to stop */
  :: atomic {
       running[w] != 0 ->
       t = 0;
       do
       :: HAS(running[w], t) -> break
       :: t < TASKS * ATTEMPTS - 1 && (running[w] >> (t + 1)) != 0 -> t++
       od;
       if
       :: said[t] = SUCCESS
       :: said[t] = FAILED
       :: faults > 0 -> faults--; said[t] = STOPPED
       fi;
       running[w] = running[w] & ~BIT(t); line[w] = line[w] | BIT(t); t = 0
     }

  /* worker/finish.py: all that is in line, in one transaction; it stays in line until the answer is known */
  :: atomic { line[w] != 0 && reporting[w] == 0 -> reporting[w] = run FinishAttempts(w, line[w]) }
  :: atomic { reporting[w] != 0 && faults > 0 -> faults--; reporting[w] = 0 }        /* the connection is cut */

  /* tasks/renew: a list of what it runs; what is not its own any more is killed */
#ifdef NO_RENEWAL_LIST
  :: atomic { !task_locked[0] && holder[0] == w && !task_leased[0] -> task_leased[0] = true }
#else
  :: atomic { !task_locked[0] && RENEWS(0) && !task_leased[0] -> task_leased[0] = true }
#if TASKS == 2
  :: atomic { !task_locked[1] && RENEWS(1) && !task_leased[1] -> task_leased[1] = true }
#endif
#endif
  :: atomic { !task_locked[0] && FENCED(0) -> running[w] = running[w] & ~(OTHERS(0)) }
#if TASKS == 2
  :: atomic { !task_locked[1] && FENCED(1) -> running[w] = running[w] & ~(OTHERS(1)) }
#endif

  /* it crashes, and its guests with it; another one comes in its place */
  :: atomic {
       (running[w] != 0 || line[w] != 0 || holder[0] == w || holder[TASKS - 1] == w) && faults > 0 -> faults--;
       running[w] = 0; line[w] = 0; reporting[w] = 0;
       do
       :: t < TASKS -> if :: holder[t] == w -> holder[t] = DEAD :: else fi; t++
       :: else -> t = 0; break
       od
     }
  od
}

#define RESCUES(t) (state[t] == RUNNING && !task_leased[t] && !task_locked[t])
/* nobody renews it: its worker is dead, or does not know that it owns it */
#ifdef NO_RENEWAL_LIST
#define EXPIRES_BY_ITSELF(t) (task_leased[t] && holder[t] == DEAD)
#else
#define EXPIRES_BY_ITSELF(t) (task_leased[t] && holder[t] != NOBODY && !KNOWN(t) && !IN_LINE(t))
#endif

/* Time and rescue_tasks, which locks only rows that nobody else holds and then changes them in one go. */
proctype Rescue() {
  byte t;
end:
  do
  :: atomic {
       EXPIRES_BY_ITSELF(0) || TASKS == 2 && EXPIRES_BY_ITSELF(TASKS - 1) ->
       if
       :: EXPIRES_BY_ITSELF(0) -> task_leased[0] = false
       :: TASKS == 2 && EXPIRES_BY_ITSELF(TASKS - 1) -> task_leased[TASKS - 1] = false
       fi
     }
  /* its worker is frozen or cut off for so long, or cannot store the report; later it goes on. (Or it is declared dead.) */
  :: atomic { task_leased[0] && faults > 0 && (KNOWN(0) || IN_LINE(0)) -> faults--; task_leased[0] = false }
#if TASKS == 2
  :: atomic { task_leased[1] && faults > 0 && (KNOWN(1) || IN_LINE(1)) -> faults--; task_leased[1] = false }
#endif
  :: atomic {
       RESCUES(0) || TASKS == 2 && RESCUES(TASKS - 1) ->
       if
       :: RESCUES(0) -> t = 0
       :: TASKS == 2 && RESCUES(TASKS - 1) -> t = TASKS - 1
       fi;
       set_outcome(NOW(t));
       losses[t]++; holder[t] = NOBODY;
       if
       :: losses[t] < LOST_LIMIT -> state[t] = QUEUED
       :: else -> state[t] = FAILED; settled[t] = false
       fi;
       t = 0
     }
  od
}

#define TO_DO(t) (!settled[t] || state[t] == RETRY && run_state == RUNNING)

/* Advance runs: locks the run, reads its tasks in a later statement, writes. Ready tasks are queued at once. */
proctype AdvanceRuns() {
  byte t, unsettled, retried;
  bool all_ended, all_good, was_running;
end:
  do
  :: atomic { !run_locked && (TO_DO(0) || TASKS == 2 && TO_DO(TASKS - 1)) -> run_locked = true };
     atomic {
       true ->
       was_running = (run_state == RUNNING); all_ended = true; all_good = true;
       do
       :: t < TASKS ->
          if :: !settled[t] -> unsettled = unsettled | BIT(t) :: else fi;
          if :: was_running && state[t] == RETRY -> retried = retried | BIT(t) :: else fi;
          if :: !(ENDED(state[t])) -> all_ended = false :: else fi;
          if :: state[t] != SUCCESS -> all_good = false :: else fi;
          t++
       :: else -> t = 0; break
       od
     };
     atomic {
       !(HAS(unsettled | retried, 0) && task_locked[0]) && !(HAS(unsettled | retried, 1) && task_locked[TASKS - 1]) ->
       do
       :: t < TASKS ->
#ifdef SETTLE_ALL
          settled[t] = true;
#else
          if :: HAS(unsettled, t) -> settled[t] = true :: else fi;            /* exactly those that were read */
#endif
          if :: HAS(retried, t) && state[t] == RETRY -> state[t] = QUEUED :: else fi;
          t++
       :: else -> t = 0; break
       od;
       if
       :: all_ended && run_state == RUNNING -> run_state = (all_good -> SUCCESS : FAILED)
       :: else
       fi;
       unsettled = 0; retried = 0; all_ended = false; all_good = false; was_running = false; run_locked = false
     }
  od
}

#ifdef EXPIRES
/* expire_runs: the run, then its tasks by id, then all in one go. */
proctype ExpireRuns() {
  byte n, t, mine;
  if
  :: atomic { run_state == RUNNING && !run_locked -> run_locked = true }
  :: atomic { run_state == SUCCESS || run_state == FAILED -> goto done }     /* it ended in time */
  fi;
  do
  :: n < TASKS ->
     atomic {
#ifdef NO_LOCK_ORDER
       t = TASKS - 1 - n;
#else
       t = n;
#endif
       !task_locked[t] ->
       if
       :: !(ENDED(state[t])) -> task_locked[t] = true; mine = mine | BIT(t)
       :: else
       fi;
       n++
     }
  :: else -> break
  od;
  atomic {
    true ->
    t = 0;
    do
    :: t < TASKS ->
       if
       :: HAS(mine, t) ->
          if
          :: state[t] == RUNNING -> set_outcome(NOW(t)); state[t] = FAILED
          :: else -> state[t] = SKIPPED
          fi;
          settled[t] = true; holder[t] = NOBODY; task_leased[t] = false; task_locked[t] = false
       :: else
       fi;
       t++
    :: else -> break
    od;
    run_state = FAILED; run_locked = false
  };
done:
}
#endif
