"""The scheduler: from deliveries and time to runs, from runs to queued tasks. Any number of them work side by side.

    create_timed_runs   a slot is due                    -> run, queued
    replay_history      a new consumer wants it      -> deliveries, pending
    release_slowly      a storm is ended slowly   -> deliveries, pending
    create_asset_runs   pending deliveries are judged    -> run, queued
    start_runs          a cap has room                   -> run running, first tasks queued
    advance_runs        tasks ended, retries are due     -> next tasks queued, run ended
    rescue              workers vanished                 -> their tasks queued again
    expire              a run is over its time           -> run failed

Each service claims a batch with SKIP LOCKED, reads what the locks protect in a later statement, decides with the pure
functions of `model`, and writes in the same transaction. A scheduler that is killed leaves nothing half done, one that
is frozen inside a transaction is cut off by the database within half a lease.
"""
