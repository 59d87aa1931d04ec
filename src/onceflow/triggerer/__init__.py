"""The triggerer: owns watchers, runs their triggers in guest processes, records what they notice.

    claim (lease, term, cursor) ──► guest: trigger runs ──batch──► deliver: fence, cursor, events, one transaction
        ▲                              ▲                                  │
        │                              └──────── ack: `yield` returns ◄───┘
        └── released by: failure (strike, back-off), end, fair share, edit, stop; taken over when the lease ran out

All watchers share one guest. If its loop stands still for two seconds, the one that blocks it is named by a mark in
shared memory, gets a strike and a guest of its own from then on; the others start again from their committed cursors.
A guest whose host lost a lease is killed, not told: it could not be trusted to hear.
"""
