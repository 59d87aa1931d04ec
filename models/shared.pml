/* A watcher of mode all: every triggerer runs it under a row of its own (store/sql/watchers/join.sql, record_watched_by_all),
   as long as its process has its lease. There is no cursor: a start of the trigger tells everything again, and what
   several tell is one change by its key. (G1, G2, G5)

   Sessions live on the server, as in triggerer.pml: one that was given up may come later. */

#ifndef HOSTS
#define HOSTS 2
#endif
#ifndef SHOWN
#define SHOWN 2
#endif
#define CHANGES SHOWN
#define ASSETS 1
#define CONSUMERS 1
#define ASSET(c) 0
#ifndef NO_KEY
#define KEYED(c) true
#endif

#include "common.pml"
#include "record.pml"

bool alive[HOSTS];            /* process.state; a process that comes in its place has another id, and another row */
bool ready[HOSTS];            /* process.ready_until is in the future */
byte row[HOSTS];              /* watching: the term of the process's row; 0 = there is none */
byte terms;
byte my_term[HOSTS];          /* the term with which the triggerer runs the watcher; 0 = it does not */
byte at[HOSTS];               /* the change that its trigger tells next */
byte start[HOSTS];            /* this start of the trigger */
byte session[HOSTS];          /* the session whose answer is awaited; 0 = none */

#define JOINS(h) (alive[h] && row[h] == 0)
#define RUNS(h) (my_term[h] != 0 && my_term[h] == row[h])

inline drop(h) {
  my_term[h] = 0; at[h] = 0; start[h] = 0; session[h] = 0
}

/* events/record_if_watching: the row of the process, then the change. */
proctype RecordIfWatching(byte h, mine, begun, what) {
  byte consumer;
#ifdef NO_FENCE
  if                                                         /* where exists: holds nothing */
  :: atomic { row[h] == mine -> skip }
  :: atomic { row[h] != mine -> if :: session[h] == _pid -> drop(h) :: else fi; goto done }
  fi;
#endif
  atomic {
    true ->
#ifndef NO_FENCE
    if                                                       /* update watching where owner and term: its newest version */
    :: row[h] == mine
    :: else -> if :: session[h] == _pid -> drop(h) :: else fi; goto done
    fi;
#endif
    assert(row[h] == mine);                                  /* G5: who was buried writes nothing */
    store(what, SIGHTING(begun, 1, what), subscribers[0]);
    if
    :: session[h] == _pid -> at[h]++; session[h] = 0
    :: else
    fi
  };
done:
}

proctype Triggerer(byte h) {
end:
  do
  /* watchers/join: all that it has no row of yet */
  :: atomic { my_term[h] == 0 && JOINS(h) -> terms++; row[h] = terms; my_term[h] = terms; FRESH(start[h]) }
  /* the same, but the answer is lost: it has a row and does not run the watcher */
  :: atomic { my_term[h] == 0 && JOINS(h) && faults > 0 -> faults--; terms++; row[h] = terms }

  /* the trigger yields, and waits until that is stored */
  :: atomic {
       my_term[h] != 0 && session[h] == 0 && at[h] < SHOWN ->
       session[h] = run RecordIfWatching(h, my_term[h], start[h], at[h])
     }
  /* the connection is cut: it is sent again, whether or not the session on the server goes on */
  :: atomic {
       session[h] != 0 && faults > 0 -> faults--;
       session[h] = run RecordIfWatching(h, my_term[h], start[h], at[h])
     }

  /* processes/renew: after a freeze it is ready again, unless it was buried: then it ends, and another comes */
  :: atomic { alive[h] && !ready[h] -> ready[h] = true }
  :: atomic { !alive[h] && row[h] == 0 -> drop(h); alive[h] = true; ready[h] = true }
  /* watchers/owned, compared with what it runs: a row that it does not run is given up */
#ifndef NO_COMPARISON
  :: atomic { alive[h] && row[h] != 0 && !RUNS(h) -> row[h] = 0 }
#endif
  :: atomic { my_term[h] != 0 && !RUNS(h) -> drop(h) }
  /* it crashes */
  :: atomic { alive[h] && faults > 0 -> faults--; drop(h); alive[h] = false; ready[h] = false }
  od
}

/* Time, and whoever buries the dead (processes/bury with watchers/release_dead), or who is not ready for a lease. */
proctype Time(byte h) {
end:
  do
  :: atomic { faults > 0 && alive[h] && ready[h] -> faults--; ready[h] = false }
  :: atomic { alive[h] && !ready[h] -> alive[h] = false; row[h] = 0 }
  :: atomic { !alive[h] && row[h] != 0 -> row[h] = 0 }
  od
}

init {
  byte i;
  atomic {
    subscribers[0] = 1;
    i = 0;
    do
    :: i < HOSTS -> alive[i] = true; ready[i] = true; run Triggerer(i); run Time(i); i++
    :: else -> i = 0; break
    od
  };
  timeout;                                                   /* nothing more can happen */
  assert(stored == BIT(CHANGES) - 1);                        /* G2: every change has its event at the end */
  assert(DELIVERED(0) == stored);                            /* G7: and every event its delivery */
  i = 0;
  do
  :: i < HOSTS -> assert(RUNS(i)); i++                       /* progress: every triggerer runs it */
  :: else -> break
  od
}
