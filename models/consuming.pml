/* Record and consume: events on two assets, recorded by several processes, judged by several schedulers for a consumer
   of policy Each (A | B) and one of policy All (A & B) (G3, G4, G7).

   -DPAUSES      a person pauses the All and lets it run again
   -DSUBSCRIBES  the Each begins to subscribe to A while events are recorded */

#ifndef SCHEDULERS
#define SCHEDULERS 2
#endif
#define ASSETS 2
#define CONSUMERS 2
#define ALL_FROM 1
/* changes 0 and 1 are of asset A, 2 and 3 of asset B */
#ifndef CHANGES
#define CHANGES 4
#endif
#define ASSET(c) ((c) < 2 -> 0 : 1)
#define IN_A 3
#define IN_B (BIT(CHANGES) - 4)

#include "common.pml"
#include "record.pml"
#include "scheduler.pml"

byte before;                  /* the events on A that came before the Each subscribed */

/* record_events with changes of one asset, or of both in one transaction; it locks the assets in their order. */
proctype Recorder(byte first, last) {
  byte change, consumer, subs;
  bool a, b;
  a = ASSET(first) == 0; b = ASSET(last) == 1;
#ifdef SUBSCRIBERS_UNLOCKED
  subs = subscribers[0];                                     /* read by the statement before the one that locks */
#endif
  if
  :: a -> atomic { !asset_locked[0] -> asset_locked[0] = true }
  :: else
  fi;
  if
  :: b -> atomic { !asset_locked[1] -> asset_locked[1] = true }
  :: else
  fi;
  atomic {
    true ->
    change = first;
    do
    :: change <= last ->
#ifndef SUBSCRIBERS_UNLOCKED
       subs = subscribers[ASSET(change)];
#else
       if :: ASSET(change) == 1 -> subs = subscribers[1] :: else fi;
#endif
       store(change, change, subs);
       change++
    :: else -> break
    od;
    if :: a -> asset_locked[0] = false :: else fi;
    if :: b -> asset_locked[1] = false :: else fi
  }
}

#ifdef SUBSCRIBES
/* assets/subscribe: under the asset's lock, beginning with the next event (subscription.from_seq). */
proctype Registrar() {
  atomic { !asset_locked[0] -> asset_locked[0] = true };
  atomic { true -> before = stored & IN_A; subscribers[0] = subscribers[0] | 1; asset_locked[0] = false }
}
#endif

#ifdef PAUSES
/* dags/pause; then dags/unpause and, under its lock, deliveries/release_paused. */
proctype Person(byte k) {
  atomic { !dag_locked[k] -> paused[k] = true };
  atomic { !dag_locked[k] -> dag_locked[k] = true };
  atomic {
    true ->
    paused[k] = false; pending[k] = pending[k] | held[k]; judged[k] = judged[k] & ~held[k]; held[k] = 0;
    dag_locked[k] = false
  }
}
#endif

init {
  byte i;
  atomic {
    subscribers[0] = 3; subscribers[1] = 3;
#ifdef SUBSCRIBES
    subscribers[0] = 2;
    run Registrar();
#endif
    run Recorder(0, 0);
    run Recorder(1, 2);
#if CHANGES == 4
    run Recorder(3, 3);
#endif
#ifdef PAUSES
    run Person(1);
#endif
    i = 0;
    do
    :: i < SCHEDULERS -> run CreateAssetRuns(); i++
    :: else -> i = 0; break
    od
  };
  timeout;                                                   /* nothing more can happen */
  assert(stored == BIT(CHANGES) - 1);                        /* progress: everything is recorded */
  assert(DELIVERED(0) == (stored & ~before));                /* G7: a delivery per event since the subscription */
  assert(DELIVERED(1) == stored);                            /* G7: a delivery per event */
  i = 0;
  do
  :: i < CONSUMERS ->
     assert((pending[i] & held[i]) == 0);                    /* G7: one disposition per delivery */
     assert(((pending[i] | held[i]) & taken[i]) == 0);       /* G7: one disposition per delivery */
     assert((started[i] & joined[i]) == 0);                  /* G7: one disposition per delivery */
     assert((started[i] | joined[i]) == taken[i]);           /* G3: what is in a run says so */
     assert(runs[i] == started[i]);                          /* G3: what started a run says so */
     assert(held[i] == 0);                                   /* G7: a pause gave back what it held */
     i++
  :: else -> break
  od;
  assert(started[0] == (stored & ~before));                  /* G3: Each: every event has its run */
  assert(!HOLDS(pending[1]))                                 /* G4: All: what is left does not satisfy the condition */
}
