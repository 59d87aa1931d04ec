"""Does what the plan says: to processes, to PostgreSQL, to what is between them. Counts what struck where it hurts."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Hashable, Sequence
from uuid import UUID

from onceflow.chaos import aim
from onceflow.chaos.aim import send
from onceflow.chaos.failover import Failover
from onceflow.chaos.installation import LOOK_SECONDS, Installation
from onceflow.chaos.plan import FROZEN_LEASES, SLOW_DELAY, SLOW_SECONDS, Fault
from onceflow.model.clock import boot_seconds
from onceflow.queries.rows import Row

AIMS = 20
VICTIM_WITHIN = 30.0


class Striker:
    """Strikes. `struck` counts deeds, `inside` those of them that met an open transaction; `failover` measures."""

    def __init__(self, running: Installation, seed: int) -> None:
        self._running = running
        self._chance = random.Random(seed)
        self._frozen: set[int] = set()
        self.struck: Counter[str] = Counter()
        self.inside = 0
        self.failover = Failover(running)

    async def run(self, faults: Sequence[Fault]) -> None:
        """Strike as planned, each in its time; returns when the last one is over."""
        began = boot_seconds()
        try:
            async with asyncio.TaskGroup() as group:
                for fault in faults:
                    await asyncio.sleep(max(0.0, began + fault.at - boot_seconds()))
                    if fault.deed == "restart":  # by the main thread, in which the server has to be started
                        await self._restart()
                    else:
                        group.create_task(self._strike(fault))
        finally:
            self._running.proxy.delay = 0.0
            for pid in self._frozen:
                send(pid, signal.SIGCONT)

    async def _strike(self, fault: Fault) -> None:
        match fault.deed:
            case "cut":
                struck = await self.failover.struck()
                self._running.proxy.cut()
                await self.failover.watchers("watchers after a cut", struck)
            case "slow":
                self._running.proxy.delay = SLOW_DELAY
                await asyncio.sleep(SLOW_SECONDS)
                self._running.proxy.delay = 0.0
            case _:
                if not await self._take(fault):
                    return
        self.struck[fault.deed] += 1

    async def _restart(self) -> None:
        """PostgreSQL ends as in a crash, at once and without a checkpoint, and recovers."""
        postgres = self._running.postgres
        struck = await self.failover.struck()
        if pid := postgres.pid:
            send(pid, signal.SIGQUIT)
        while postgres.pid:
            await asyncio.sleep(LOOK_SECONDS)
        postgres.start()
        await self.failover.watchers("watchers after a restart of PostgreSQL", struck)
        self.struck["restart"] += 1

    async def _take(self, fault: Fault) -> bool:
        """Kill or freeze a process of the role, inside a transaction if one is met; False if there was none to take."""
        victim, count = await self._victim(fault.role)
        if victim is None:
            return False
        struck = await self.failover.struck(UUID(str(victim["id"])))
        if fault.deed == "kill":
            send(victim["pid"], signal.SIGKILL)
            self._frozen.discard(victim["pid"])
            async with asyncio.TaskGroup() as group:
                group.create_task(self.failover.process("processes killed", victim, count))
                group.create_task(self.failover.watchers("watchers of a killed triggerer", struck))
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.failover.watchers("watchers of a frozen triggerer", struck))
                await asyncio.sleep(FROZEN_LEASES * self._running.settings.lease_seconds)
                self._frozen.discard(victim["pid"])
                send(victim["pid"], signal.SIGCONT)
        return True

    async def _victim(self, role: str) -> tuple[Row | None, int]:
        """A process of the role, stopped, and how many there are. If all are dead or frozen, one is waited for."""
        give_up = boot_seconds() + VICTIM_WITHIN
        while boot_seconds() < give_up:
            there = await self._running.processes(role)
            able = [p for p in there if p["pid"] not in self._frozen]
            if able and await self._aim(victim := self._chance.choice(able)):
                return victim, len(there)
            await asyncio.sleep(LOOK_SECONDS)
        return None, 0

    async def _aim(self, victim: Row) -> bool:
        """Stop the process, best inside a transaction; False if it was gone."""
        inside = await aim.stop(victim["pid"], lambda: self._open(victim["kind"]), self._chance, AIMS)
        if inside is None:
            return False
        self._frozen.add(victim["pid"])
        self.inside += inside
        return True

    async def _open(self, role: str) -> set[Hashable]:
        rows = await self._running.patiently(lambda: self._running.direct.fetch("chaos/open_transactions", role))
        return {tuple(r) for r in rows}
