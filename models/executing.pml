/* Execute: attempts of the tasks of a run, given to workers, lost, finished, and their outlet events (G6).

   -DTASKS=2     two tasks, so that transactions want more than one row of a kind
   -DEXPIRES     the run is over its time at some moment */

#ifndef TASKS
#define TASKS 1
#endif
#define WORKERS 2
#define ASSETS 1
#define CONSUMERS 1
#define CHANGES TASKS
#define ASSET(c) 0
#define OUT(t) (t)
#define OUT_ASSET 0

#include "common.pml"
#include "record.pml"
#include "worker.pml"

init {
  byte t, n;
  atomic {
    subscribers[0] = 1; run_state = RUNNING;
    do
    :: t < TASKS -> state[t] = QUEUED; t++
    :: else -> t = 0; break
    od;
    run Worker(0);
    run Worker(1);
    run Rescue();
    run AdvanceRuns();
#if TASKS == 1
    run AdvanceRuns();
#endif
#ifdef EXPIRES
    run ExpireRuns()
#endif
  };
  timeout;                                                   /* nothing more can happen */
  assert(!run_locked && !asset_locked[0]);                   /* no deadlock */
  assert(run_state == SUCCESS || run_state == FAILED);       /* progress: the run has ended */
  do
  :: t < TASKS ->
     assert(!task_locked[t]);                                /* no deadlock */
     assert(ENDED(state[t]) && settled[t]);                  /* progress: its tasks have ended */
     assert(HAS(stored, t) == (state[t] == SUCCESS));        /* G6: outlet events are those of the success */
     n = 1;
     do
     :: n <= ATTEMPTS ->
        assert(HAS(decided, X(t, n)) == (n <= attempt[t]));  /* G6: one outcome per attempt */
        n++
     :: else -> break
     od;
     t++
  :: else -> break
  od;
  assert(run_state == FAILED || stored == BIT(TASKS) - 1);   /* G6: a run is a success if its tasks are */
  assert(DELIVERED(0) == stored)                             /* G7: a delivery per outlet event */
}
