"""Faults at random moments, seeded, and a count of those that struck where it hurts.

A process is frozen first; if it turns out to be inside a transaction it is killed there (or stays frozen for longer
than its lease), else it is let go and tried again a moment later. The report of a chaos test counts the faults that
struck inside a transaction, and a test that struck too few of them fails: it would have shown nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from onceflow.queries.rows import Row
from system import LEASE_SECONDS, System

FROZEN_LEASES = 2.0

LOOK = """
    select pid, xact_start from pg_stat_activity
    where datname = current_database() and application_name = $1 and state like 'idle in transaction%'
"""


class Chaos:
    """Kills or freezes processes of one kind, again and again, one at a time.

    `aim`: look for a moment inside a transaction; for kinds whose writes are single statements there is none to hit.
    """

    def __init__(
        self,
        system: System,
        kind: str,
        *,
        seed: int,
        freeze: bool = False,
        aim: bool = True,
        pause: tuple[float, float] = (0.2, 0.6),
    ) -> None:
        self._system = system
        self._kind = kind
        self._random = random.Random(seed)
        self._freeze = freeze
        self._aim = aim
        self._pause = pause
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

    def report(self, *, inside: int) -> None:
        """Print what struck; fails if fewer than so many faults struck inside a transaction."""
        print(f"chaos among {self._kind}s: {dict(self.struck)}")
        assert self.struck["inside"] >= inside, dict(self.struck)

    async def _run(self, stop: asyncio.Event) -> None:
        connection = await asyncpg.connect(self._system.url)
        try:
            while not stop.is_set():
                victims = await self._system.processes(self._kind)
                if victims:
                    await self._strike(connection, self._random.choice(victims))
                await _wait(stop, self._random.uniform(*self._pause))
        finally:
            self._system.thaw_all()
            await connection.close()

    async def _strike(self, connection: asyncpg.Connection, victim: Row) -> None:
        """Freeze at a random moment, a few times if need be to catch it inside a transaction; then the deed."""
        for _ in range(10 if self._aim else 0):
            try:
                self._system.freeze(victim["pid"])
            except ProcessLookupError:
                return
            if await self._inside(connection):
                self.struck["inside"] += 1
                await self._deed(victim["pid"])
                return
            self._system.thaw(victim["pid"])
            await asyncio.sleep(self._random.uniform(0.001, 0.02))
        try:
            self._system.freeze(victim["pid"])
        except ProcessLookupError:
            return
        self.struck["outside"] += 1
        await self._deed(victim["pid"])

    async def _deed(self, pid: int) -> None:
        """Kill the frozen process, or wake it only after its lease."""
        if not self._freeze:
            self._system.kill(pid)
            return
        await asyncio.sleep(FROZEN_LEASES * LEASE_SECONDS)
        self._system.thaw(pid)

    async def _inside(self, connection: asyncpg.Connection) -> bool:
        """Whether a transaction stays open while nobody speaks to it: the frozen process's."""
        before = {(r["pid"], r["xact_start"]) for r in await connection.fetch(LOOK, self._kind)}
        await asyncio.sleep(0.02)
        return any((r["pid"], r["xact_start"]) in before for r in await connection.fetch(LOOK, self._kind))


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
