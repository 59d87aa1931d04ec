/* Lease and record: triggerers share a watcher (G1, G2, G5).

   -DKEYS      the changes carry keys, and change 0 is also emitted by somebody else
   else        they carry none; -DEMITS: somebody else emits a change of its own
   -DRESTARTS  triggers start again within a term
   -DWITHOUT_CURSOR (with KEYS)  the trigger keeps no cursor: each start tells everything again */

#ifndef HOSTS
#define HOSTS 2
#endif
#ifndef SHOWN
#define SHOWN 2
#endif
#define ASSETS 1
#define CONSUMERS 1
#define ASSET(c) 0
#ifdef KEYS
#define KEYED(c) true
#define EMITS
#define EMITTED 0
#define CHANGES SHOWN
#else
#define EMITTED SHOWN
#ifdef EMITS
#define CHANGES (SHOWN + 1)
#else
#define CHANGES SHOWN
#endif
#endif

#include "common.pml"
#include "record.pml"
#include "triggerer.pml"

#ifdef EMITS
/* store/emit.py: sent again under the same sighting until the answer is known. */
proctype Emitter() {
  byte sighting, consumer;
  atomic { FRESH(sighting) };
  do
  :: atomic { true -> store(EMITTED, SIGHTING(sighting, 1, 0), subscribers[0]) };
     if
     :: break
     :: atomic {                                 /* the answer is lost */
          faults > 0 -> faults--;
#ifdef NO_SIGHTING
          FRESH(sighting)
#endif
        }
     fi
  od
}
#endif

init {
  byte i;
  atomic {
    subscribers[0] = 1;
    i = 0;
    do
    :: i < HOSTS -> run Triggerer(i); i++
    :: else -> i = 0; break
    od;
    run Time();
#ifdef EMITS
    run Emitter()
#endif
  };
  timeout;                                                   /* nothing more can happen */
  assert(stored == BIT(CHANGES) - 1);                        /* G2: every change has its event at the end */
  assert(DELIVERED(0) == stored);                            /* G7: and every event its delivery */
#ifndef WITHOUT_CURSOR
  assert(cursor == SHOWN)                                    /* G2: the cursor is at the end */
#endif
}
