"""Faults at random moments, seeded, and a count of those that struck where it hurts.

How fast they come follows what the system does, not the clock: after each fault it has to get a step further, so that
a slow machine is not struck down faster than it can get up. A process is frozen first; if it turns out to be inside a
transaction it is killed there (or stays frozen for longer than its lease), else it is let go and tried again a moment
later. A test goes on until enough faults struck inside a transaction: fewer would have shown nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager

import asyncpg

from onceflow.chaos import aim
from onceflow.queries.rows import Row
from system import LEASE_SECONDS, System

FROZEN_LEASES = 2.0
AIMS = 10
LOOK_EVERY = 0.05

OPEN = """
    select pid, xact_start from pg_stat_activity
    where datname = current_database() and application_name = $1 and state like 'idle in transaction%'
"""


class Chaos:
    """Kills or freezes processes of one kind, again and again, one at a time.

    `progress`: a number that rises with what the system does; `step`: how far it has to rise between two faults.
    `aim`: look for a moment inside a transaction; for kinds whose writes are single statements there is none to hit.
    """

    def __init__(
        self,
        system: System,
        kind: str,
        progress: Callable[[], Awaitable[int]],
        *,
        step: int,
        seed: int,
        freeze: bool = False,
        aim: bool = True,
    ) -> None:
        self._system = system
        self._kind = kind
        self._progress = progress
        self._step = step
        self._random = random.Random(seed)
        self._freeze = freeze
        self._aims = AIMS if aim else 0
        self.struck: Counter[str] = Counter()
        """Faults by where they struck: `inside` a transaction or `outside`."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Chaos]:
        """Faults go on until the block is left."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run(stop))
            try:
                yield self
            finally:
                stop.set()
        print(f"chaos among {self._kind}s: {dict(self.struck)}")

    async def _run(self, stop: asyncio.Event) -> None:
        connection = await asyncpg.connect(self._system.url)
        try:
            while not stop.is_set():
                reached = await self._progress()
                victims = await self._system.processes(self._kind)
                if victims:
                    await self._strike(connection, self._random.choice(victims))
                wanted = reached + self._random.randint(1, 2 * self._step)
                while not stop.is_set() and await self._progress() < wanted:
                    await asyncio.sleep(self._random.uniform(0.0, 2 * LOOK_EVERY))
        finally:
            self._system.thaw_all()
            await connection.close()

    async def _strike(self, connection: asyncpg.Connection, victim: Row) -> None:
        """Freeze at a random moment, inside a transaction if it is met; then kill, or wake only after the lease."""

        async def open_now() -> set[Hashable]:
            return {(r["pid"], r["xact_start"]) for r in await connection.fetch(OPEN, self._kind)}

        pid = victim["pid"]
        inside = await aim.stop(pid, open_now, self._random, self._aims)
        if inside is None:
            return
        self._system.freeze(pid)
        if self._freeze:
            await asyncio.sleep(FROZEN_LEASES * LEASE_SECONDS)
            self._system.thaw(pid)
        else:
            self._system.kill(pid)
        self.struck["inside" if inside else "outside"] += 1


async def count(system: System, what: str, where: str = "true") -> int:
    """How many rows there are of a table, to see progress by."""
    [row] = await system.sql(f"select count(*) from {what} where {where}")
    return row[0]


async def at_least(counted: Callable[[], Awaitable[int]], wanted: int) -> bool:
    """For `eventually`: it has come so far."""
    found = await counted()
    assert found >= wanted, found
    return True
