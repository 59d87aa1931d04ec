"""Chaos: a scratch installation whose processes are killed, frozen and cut off while changes come in, and the proof.

    plan (seeded) ──► faults strike processes, the proxy, PostgreSQL      changes ──► emitted again until acknowledged
                                     │                                        │
                                     └────────► everything settles ◄──────────┘
                                                     │
                                     verify, and every acknowledged change is one event

A kill or a freeze takes a process at a random moment, and rather one inside a transaction: it is stopped first, and if
the database says that a transaction of its kind stands open, it strikes there. The plan repeats by its seed; the
moments of a real machine do not, and need not.
"""
