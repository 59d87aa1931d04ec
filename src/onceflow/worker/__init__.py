"""The worker: claims queued tasks, runs each attempt in a guest process of its own, reports how it ended.

    host (this role)  ──exec──►  base template (SDK only)  ──fork──►  file template (a DAG file, loaded)
         │    ▲                                                          │ fork per attempt, 2 to 3 ms
         │    └──────────────── one socket per attempt ──────────────► guest (the user's code)

    claim ──► guests.start ──► [xcom, events …] ──► result, exit ──► outcome.report ──► finish (one transaction)

Guests have no access to the database and no address of it. When the worker is killed its guests die with it; when it is
frozen or cut off, its tasks' leases run out, they are queued again elsewhere, and its late reports change nothing.
"""
