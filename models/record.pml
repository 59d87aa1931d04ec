/* record_events (store/migrations/0002_functions.sql): identity, event and deliveries, stored under the asset's lock.

   A change is a number; ASSET(change) is its asset. An event is as good as its change, because a second event of one
   change ends the check at once. A delivery is a bit in one of the consumer's sets. The model that includes this
   says CHANGES, ASSETS, CONSUMERS, ASSET(c) and, if it has keyed changes, KEYED(c). */

#ifndef KEYED
#define KEYED(c) false
#endif

bool asset_locked[ASSETS];
byte subscribers[ASSETS];     /* asset.subscribers, a set of consumers */
byte stored;                  /* event, a set of changes */
byte key_known;               /* change_key of changes with a key: a set of changes */
int sighting_known;           /* change_key of changes without: a set of sightings */

byte pending[CONSUMERS];      /* delivery.disposition, sets of changes */
byte held[CONSUMERS];
byte started[CONSUMERS];
byte joined[CONSUMERS];
byte judged[CONSUMERS];       /* delivery.judged */

#define DELIVERED(k) (pending[k] | held[k] | started[k] | joined[k])

/* Sightings. A start of a trigger, an emit or an attempt has a fresh id; its n-th batch's i-th change has the sighting
   (start, n, i); n begins with 1 and 2n + i is 4 at most. */
byte starts;
#define SIGHTING(start, n, i) ((start) * 3 + 2 * (n) + (i) - 2)
#define FRESH(start) start = starts; starts++; assert(starts <= 8)  /* bound */

/* One change inside record_events; the asset is locked and the transaction's other writes are visible with this one.
   G1: the assertion. */
inline store(what, sight, subs) {
  if
#ifndef NO_UNIQUE_KEY
  :: KEYED(what) && HAS(key_known, what) -> skip                  /* duplicate: a witness */
  :: !KEYED(what) && HAS(sighting_known, sight) -> skip          /* repeated: this very sighting */
#endif
  :: else ->
     if
     :: KEYED(what) -> key_known = key_known | BIT(what)
     :: else -> sighting_known = sighting_known | BIT(sight)
     fi;
     assert(!HAS(stored, what));                             /* G1: one event per change */
     stored = stored | BIT(what);
     deliver(what, subs)
  fi
}

/* One pending delivery per subscriber. */
inline deliver(event, to) {
  consumer = 0;
  do
  :: consumer < CONSUMERS ->
     if
     :: HAS(to, consumer) ->
        assert(!HAS(DELIVERED(consumer), event));            /* G7: one delivery per event and consumer */
        pending[consumer] = pending[consumer] | BIT(event)
     :: else
     fi;
     consumer++
  :: else -> break
  od;
  consumer = 0
}
