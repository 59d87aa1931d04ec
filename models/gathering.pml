/* Consumers that gather, and a person's join: one consumer, events 0, 1, ... on one asset, each a bit, recorded in order;
   schedulers look, lock, read and judge as in scheduler.pml (judge_consumers.py, model/consume.py), with these verdicts:

   -DWINDOW   quiet or max_size: a run of what waits once its last event is old, of SIZE events at most (G3, G7)
   -DLATEST   one run at a time: the newest starts, the older are superseded, also one that is mended later
   -DJOINS    a person pauses it and lets it run again with one run of all that is open */

#ifndef SCHEDULERS
#define SCHEDULERS 2
#endif
#define CHANGES 3
#define ALL_OF_THEM (BIT(CHANGES) - 1)
#define SIZE 2

#include "common.pml"

byte stored;                  /* event, and delivery: sets of changes */
byte pending;
byte judged;
byte held;
byte superseded;
byte taken;                   /* in a run */
byte old;                     /* for so long that a window of which they are the last is over */
bool dag_locked;
bool paused;
byte join;                    /* what the intervention named by dag.join_id concerns; 0 = there is none */
bool window_noted;            /* dag.judge_at is the end of the window, */
bool room_noted;              /* or 'infinity': when a run has ended */
byte under_way;               /* runs under way; one is allowed */
byte newest;                  /* the newest event that is in a run, as a set */

#define UNJUDGED (pending & ~judged)
#define WAITING (pending & judged)
#define LOWEST(set) ((set) & -(set))
#define HIGHEST(set) ((set) >= 4 -> 4 : ((set) >= 2 -> 2 : (set)))
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1))
#define TIME_IS_UP (window_noted && WAITING != 0 && (WAITING & ~old) == 0)
#define FOUND (UNJUDGED != 0 || !paused && (TIME_IS_UP || room_noted && under_way == 0))

inline create(members) {
  assert((taken & (members)) == 0);                          /* G3: an event is in one run */
  assert(((members) & ~pending) == 0);                       /* G4: judged on facts, so that OF002 is never raised */
  taken = taken | (members); pending = pending & ~(members); judged = judged | (members)
}

#ifdef WINDOW
/* Of the oldest, SIZE at most in a run; what is left waits for its window, which is noted. */
inline judge() {
  window_noted = false;
  do
  :: waiting != 0 && (COUNT(waiting) >= SIZE || (waiting & ~old) == 0) ->
     part = LOWEST(waiting);
     if
     :: (waiting & ~part) != 0 -> part = part | LOWEST(waiting & ~part)
     :: else
     fi;
     assert(COUNT(part) == SIZE || (part & ~old) == 0);      /* G4: no window closes early */
     assert(COUNT(part) <= SIZE);                            /* G7: no run has more than a window holds */
     create(part);
     waiting = waiting & ~part
  :: else -> break
  od;
#ifndef NO_DUE
  window_noted = waiting != 0;
#endif
  judged = judged | waiting; part = 0
}
#endif

#ifdef LATEST
inline judge() {
  room_noted = false;
  judged = judged | waiting;
#ifndef NO_GIVE_WAY
  if
  :: waiting != 0 && waiting < newest ->                     /* all of it is older */
     superseded = superseded | waiting; pending = pending & ~waiting; waiting = 0
  :: else
  fi;
#endif
  if
  :: waiting == 0
  :: waiting != 0 && under_way > 0 ->
#ifndef NO_ROOM_NOTE
     room_noted = true
#endif
  :: waiting != 0 && under_way == 0 ->
     part = HIGHEST(waiting);
     assert(part > newest);                                  /* G4: none starts that is older than one that started */
     create(part);
     newest = part; under_way = 1;
     superseded = superseded | (waiting & ~part); pending = pending & ~waiting
  fi;
  part = 0
}
#endif

#ifdef JOINS
/* A run of each, or one of the join, which is judged alone. */
inline judge() {
  if
  :: paused -> held = held | (waiting & pending); pending = pending & ~waiting; judged = judged | waiting
  :: !paused && join != 0 ->
     assert(waiting == join);                                /* G4: one run of what was open when it was asked for */
     create(waiting);
     join = 0
  :: else -> create(waiting)
  fi
}
#endif

proctype CreateAssetRuns() {
  byte waiting, part;
end:
  do
  :: atomic { FOUND -> skip };                               /* deliveries/find_consumers, before the transaction */
#ifdef NO_REREAD
     atomic { true -> waiting = WAITING | UNJUDGED };        /* as the statement that locks would see it */
#endif
     if
     :: atomic { !dag_locked -> dag_locked = true };
#ifndef NO_REREAD
        atomic {                                             /* claim_deliveries, and the survey */
          true ->
#ifdef JOINS
#ifdef JOIN_TAKES_ALL
          waiting = UNJUDGED
#else
          waiting = (join != 0 -> UNJUDGED & join : UNJUDGED)
#endif
#else
          waiting = WAITING | UNJUDGED
#endif
        };
#endif
        if
        :: atomic { true -> judge(); waiting = 0; dag_locked = false }
        :: atomic { faults > 0 -> faults--; waiting = 0; dag_locked = false }
        fi
     :: atomic { dag_locked -> waiting = 0 }                 /* for update skip locked */
     fi
  od
}

proctype Recorder() {
  byte n;
  do
  :: atomic {
       n < CHANGES ->
#ifdef LATEST
       if
       :: n == 0 -> held = 1                                 /* its payload is bad: it is quarantined */
       :: else -> pending = pending | BIT(n)
       fi;
#else
       pending = pending | BIT(n);
#endif
       stored = stored | BIT(n); n++
     }
  :: atomic { n == CHANGES -> n = 0; break }
  od
}

#ifdef WINDOW
proctype Time() {
end:
  do
  :: atomic { old != stored -> old = stored }
  od
}
#endif

#ifdef LATEST
/* Runs end. */
proctype Work() {
end:
  do
  :: atomic { under_way > 0 -> under_way = 0 }
  od
}

/* events/release: under the asset's lock, not the consumer's. */
proctype Person() {
  atomic { held != 0 -> pending = pending | held; held = 0 }
}
#endif

#ifdef JOINS
/* pause_dag, and resume_dag with 'join': all that is open is marked, under the consumer's lock. */
proctype Person() {
  atomic { !dag_locked -> paused = true };
  atomic {
    !dag_locked ->
    paused = false; pending = pending | held; held = 0; judged = judged & ~pending; join = pending
  }
}
#endif

init {
  byte i;
  atomic {
    run Recorder();
#ifdef WINDOW
    run Time();
#endif
#ifdef LATEST
    run Work(); run Person();
#endif
#ifdef JOINS
    run Person();
#endif
    i = 0;
    do
    :: i < SCHEDULERS -> run CreateAssetRuns(); i++
    :: else -> i = 0; break
    od
  };
  timeout;                                                   /* nothing more can happen */
  assert(stored == ALL_OF_THEM);                             /* progress: everything is recorded */
  assert(pending == 0 && held == 0);                         /* progress: nothing waits for ever */
  assert((taken & superseded) == 0);                         /* G7: one disposition per delivery */
  assert((taken | superseded) == ALL_OF_THEM)                /* G7: no member is lost */
}
