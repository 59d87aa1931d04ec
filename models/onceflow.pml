/* The whole way of a change: a watcher's change on asset A starts the one run of an Each(A); the run's task, when it
   succeeds, has an outlet event on asset B; with the first event it starts the one run of an All(A & B). */

#ifndef HOSTS
#define HOSTS 2
#endif
#define SHOWN 1
#define WORKERS 2
#define ASSETS 2
#define CONSUMERS 2
#define ALL_FROM 1
#define CHANGES 2             /* 0: what the watcher shows, on A; 1: the outlet event, on B */
#define ASSET(c) (c)
#define IN_A 1
#define IN_B 2
#define TASKS 1
#define OUT(t) 1
#define OUT_ASSET 1
#define OUT_SIGHTING(x) (26 + (x))
#define CREATED(k, event) run_created(k)

#include "common.pml"
#include "record.pml"
#include "triggerer.pml"

/* Its tasks are written when it begins: in the transaction that made it, or by start runs. */
inline run_created(which) {
  if
  :: which == 0 ->
     assert(run_state == ABSENT);                            /* G3: one run per event and consumer */
     if
     :: run_state = QUEUED
     :: run_state = RUNNING; state[0] = QUEUED
     fi
  :: else
  fi
}

#include "worker.pml"
#include "scheduler.pml"

/* scheduler/start_runs.py: under the consumer's lock. */
proctype StartRuns() {
end:
  atomic { run_state == QUEUED && !dag_locked[0] -> dag_locked[0] = true };
  atomic {
    true ->
    assert(state[0] == ABSENT);                              /* G3: a run starts once */
    run_state = RUNNING; state[0] = QUEUED; dag_locked[0] = false
  }
}

init {
  atomic {
    subscribers[0] = 3; subscribers[1] = 2;
    run Triggerer(0); run Triggerer(1); run Time();
    run CreateAssetRuns(); run CreateAssetRuns(); run StartRuns();
    run Worker(0); run Worker(1); run Rescue(); run AdvanceRuns()
  };
  timeout;                                                   /* nothing more can happen */
  assert(HAS(stored, 0) && cursor == 1);                     /* G2: the change has its event */
  assert(started[0] == 1 && runs[0] == 1);                   /* G3: the event has its run */
  assert(pending[0] == 0 && !run_locked);                    /* progress */
  assert(run_state == SUCCESS || run_state == FAILED);       /* progress: the run has ended */
  assert(ENDED(state[0]) && settled[0]);                     /* progress: its task has ended */
  assert(HAS(stored, 1) == (state[0] == SUCCESS));           /* G6: the outlet event is that of the success */
  if
  :: state[0] == SUCCESS ->
     assert(started[1] == 2 && joined[1] == 1);              /* G4: the condition is met by both events */
     assert(runs[1] == 2 && pending[1] == 0)                 /* G3: they have their run */
  :: else ->
     assert(runs[1] == 0 && pending[1] == 1)                 /* G4: no early AND */
  fi
}
