/* Triggerers: claim, renew, record, let go (triggerer/*.py, store/sql/watchers/*.sql). One watcher whose source shows the
   changes 0 to SHOWN - 1, in this order, from any cursor on; the model that includes this says SHOWN (at most 2) and
   HOSTS (2 or 3). */

bool watcher_locked;          /* a transaction under way has the watcher's row */
byte owner = NOBODY;
byte term;
bool ready[HOSTS];            /* process.ready_until is in the future: what it owns is not taken over */
byte cursor;                  /* the changes below it were told */
byte last_batch;              /* number of the last batch that was stored in this term */
bool edited;                  /* generation <> claimed_generation: declared anew since it was claimed */

#ifdef LATE_ANSWERS
byte claimed[HOSTS];          /* the term of a claim whose answer is on its way; 0 = none */
#define CLAIMS_AGAIN (claimed[h] == 0)
#else
#define CLAIMS_AGAIN true
#endif
byte my_term[HOSTS];          /* Host.watches: the term with which the triggerer runs the watcher; 0 = it does not */
byte at[HOSTS];               /* the change that its trigger tells next */
byte start[HOSTS];            /* this start of the trigger */
byte nth[HOSTS];              /* batches so far since this start, */
byte number[HOSTS];           /* and in this term */
byte size[HOSTS];             /* changes in the batch that is being stored; 0 = none is */
byte session[HOSTS];          /* the session whose answer is awaited; 0 = none */
bool again[HOSTS];            /* to start again once its batch is stored */

#ifdef NO_EDIT_FENCE
#define MAY_WRITE(t) (term == (t) && owner != NOBODY)
#else
#define MAY_WRITE(t) (term == (t) && owner != NOBODY && !edited)
#endif
#define RUNS(h) (my_term[h] != 0 && my_term[h] == term && owner != NOBODY)
#define OWNED_BY_A_HOST (owner < HOSTS)
#define OWNER_RUNS (OWNED_BY_A_HOST && RUNS(owner))
#define OWNER_READY (OWNED_BY_A_HOST && ready[owner])
#define CLAIMABLE (!watcher_locked && !OWNER_READY && ready[h] && (h == 0 || term > 0))   /* one of them is the first */

/* What the trigger says from now on is not heard; a session under way goes on, but nobody awaits its answer. */
inline drop(h) {
  my_term[h] = 0; at[h] = 0; start[h] = 0; nth[h] = 0; number[h] = 0; size[h] = 0; session[h] = 0; again[h] = false
}

/* A start of the trigger, with sightings of its own. */
inline begin(h) {
  nth[h] = 0; again[h] = false;
#ifdef SIGHTING_BY_TERM
  start[h] = my_term[h]
#else
  FRESH(start[h])
#endif
}

/* Where a session ends, its client goes on at once: an answer that comes late is as good as none (see `send`). */
inline answered_stored() {
  if
  :: session[h] == _pid ->
     at[h] = at[h] + size[h]; size[h] = 0; session[h] = 0;
     if
     :: again[h] -> begin(h)
     :: else
     fi
  :: else
  fi
}

inline answered_fenced() {
  if
  :: session[h] == _pid -> drop(h)
  :: else
  fi
}

/* events/record_if_owner. It lives on the server: a client that is gone or lost its connection does not end it. Nothing
   is awaited behind the lock of the one asset, so all that follows it is one step; a transaction that is aborted is one
   that comes after the one that is sent in its place. */
proctype RecordIfOwner(byte h, mine, no, begun, n, first, count) {
  byte i, consumer;
#ifdef NO_FENCE
  /* where exists (...): looks at the statement's snapshot and holds nothing */
  if
  :: atomic { MAY_WRITE(mine) -> skip }
  :: atomic { !MAY_WRITE(mine) -> answered_fenced(); goto done }
  fi;
#else
  /* update watcher where owner, term and generation: waits for the row, then looks at its newest version. A term was
     given to one owner only, so it says the owner, too. */
  if
  :: atomic { !watcher_locked && MAY_WRITE(mine) -> watcher_locked = true }
  :: atomic { !watcher_locked && !MAY_WRITE(mine) -> answered_fenced(); goto done }
  fi;
#endif
  atomic {
    true ->
    i = 0;
    do
    :: i < count -> store(first + i, SIGHTING(begun, n, i), subscribers[0]); i++
    :: else -> break
    od;
    i = 0;
#ifndef WITHOUT_CURSOR
    if
#ifndef NO_BATCH_NUMBER
    :: no <= last_batch                                      /* this batch was stored by another session before */
#endif
#ifdef NO_EDIT_FENCE
    :: edited                                                /* what its cursor means the new definition does not know */
#endif
    :: else ->
       assert(cursor <= first + count);                      /* G2: the cursor never goes back */
       cursor = first + count; last_batch = no
    fi;
    assert(((BIT(cursor) - 1) & ~stored) == 0);              /* G2: the cursor is never ahead of what is stored */
#endif
#ifndef NO_FENCE
    watcher_locked = false;
#endif
    answered_stored()
  };
done:
}

/* Sends the batch. When it is not known whether it was stored it is sent again, under the same sightings. */
inline send() {
  session[h] = run RecordIfOwner(h, my_term[h], number[h], start[h], nth[h], at[h], size[h])
}

proctype Triggerer(byte h) {
end:
  do
  /* watchers/claim */
  :: atomic {
       my_term[h] == 0 && CLAIMS_AGAIN && CLAIMABLE ->
       owner = h; term++; last_batch = 0; edited = false; my_term[h] = term;
#ifndef WITHOUT_CURSOR
       at[h] = cursor;
#endif
       begin(h)
     }
  /* the same, but the answer is lost: it owns the watcher and does not know */
  :: atomic {
       my_term[h] == 0 && CLAIMS_AGAIN && faults > 0 && CLAIMABLE ->
       faults--; owner = h; term++; last_batch = 0; edited = false;
#ifdef LATE_ANSWERS
       claimed[h] = term;
#ifndef WITHOUT_CURSOR
       at[h] = cursor
#endif
#endif
     }
#ifdef LATE_ANSWERS
  /* or it only takes long, */
  :: atomic { claimed[h] != 0 -> my_term[h] = claimed[h]; claimed[h] = 0; begin(h) }
  /* and never comes */
  :: atomic { claimed[h] != 0 -> claimed[h] = 0; at[h] = 0 }
#endif

  /* the trigger yields one change or several, and waits until they are stored */
  :: atomic {
       my_term[h] != 0 && size[h] == 0 && at[h] < SHOWN ->
       if
       :: size[h] = 1
       :: at[h] + 1 < SHOWN -> size[h] = 2
       fi;
       number[h]++; nth[h]++;
       send()
     }
  /* the connection is cut: the batch is sent again, whether or not the session on the server goes on */
  :: atomic {
       session[h] != 0 && faults > 0 -> faults--;
#ifdef NO_SIGHTING
       begin(h);
#endif
       send()
     }

  /* processes/renew: its own row; after a freeze it is ready again */
  :: atomic { !ready[h] -> ready[h] = true }
  /* watchers/owned, compared with what it runs: what it owns and does not run is given up. An answer that comes later than
     that finds out when it writes. */
#ifndef NO_COMPARISON
  :: atomic { !watcher_locked && owner == h && !RUNS(h) -> owner = NOBODY }
#endif
  :: atomic { !watcher_locked && my_term[h] != 0 && !RUNS(h) -> drop(h) }

  /* above its fair share: dropped, and released by watchers/release */
  :: atomic { !watcher_locked && RUNS(h) && faults > 0 -> faults--; drop(h); owner = NOBODY }
  /* edited, as the renewal tells: likewise */
  :: atomic { !watcher_locked && RUNS(h) && edited -> drop(h); owner = NOBODY }

  /* it crashes; another process comes in its place */
  :: atomic {
       (my_term[h] != 0 || owner == h) && faults > 0 -> faults--;
       drop(h);
#ifdef LATE_ANSWERS
       claimed[h] = 0;
#endif
       if
       :: owner == h -> owner = DEAD
       :: else
       fi
     }

#ifdef RESTARTS
  /* a neighbour in its guest blocked or ended it: the trigger starts again from the committed cursor */
  :: atomic {
       my_term[h] != 0 && faults > 0 -> faults--;
       if
       :: size[h] == 0 -> begin(h)
       :: else ->
#ifdef RESTART_AT_ONCE
          size[h] = 0; session[h] = 0; begin(h)
#else
          again[h] = true                        /* its cursor is about to move: after that */
#endif
       fi
     }
#endif
  od
}

/* Time, and whoever buries the dead (processes/bury with watchers/release_dead). */
proctype Time() {
end:
  do
  /* an owner is not ready any more because it is frozen or cut off for a lease; later it goes on */
  :: atomic { OWNER_READY && faults > 0 -> faults--; ready[owner] = false }
  /* its file is registered with other code; the cursor stays (watchers/lock, watchers/declare) */
  :: atomic { OWNER_RUNS && !edited && faults > 0 && !watcher_locked -> faults--; edited = true }
  /* a dead owner is buried, and a frozen one, too, which finds out later */
  :: atomic { owner == DEAD && !watcher_locked -> owner = NOBODY }
  :: atomic { OWNER_RUNS && faults > 0 && !watcher_locked -> faults--; owner = NOBODY }
  od
}
