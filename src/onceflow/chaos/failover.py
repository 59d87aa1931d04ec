"""Measures how long it takes until somebody else does what a process did that was struck."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID

from onceflow.chaos.installation import LOOK_SECONDS, Installation
from onceflow.model.clock import boot_seconds
from onceflow.queries.rows import Row

WITHIN = 60.0


@dataclass
class Times:
    """Seconds of one kind of failover; `never`: how many were not over within a minute."""

    seconds: list[float] = field(default_factory=list)
    never: int = 0

    def as_dict(self) -> dict[str, float | int | None]:
        """Count, 50th and 99th percentile, maximum (seconds; None if there is nothing), and how many never were."""
        return {
            "count": len(self.seconds),
            "p50": percentile(self.seconds, 0.5),
            "p99": percentile(self.seconds, 0.99),
            "max": max(self.seconds, default=None),
            "never": self.never,
        }


def percentile(seconds: Sequence[float], part: float) -> float | None:
    """The smallest of the values that so large a part of them does not exceed; None if there are none."""
    ordered = sorted(seconds)
    return ordered[max(0, -int(-part * len(ordered) // 1) - 1)] if ordered else None


@dataclass(frozen=True)
class Struck:
    """A moment of which others take over: by this machine's clock and by the database's, and the watchers concerned."""

    began: float
    at: datetime
    watchers: Sequence[int]
    owner: UUID | None


class Failover:
    """`times` by what was struck."""

    def __init__(self, running: Installation) -> None:
        self._running = running
        self.times: dict[str, Times] = {}

    async def struck(self, owner: UUID | None = None) -> Struck:
        """Note the moment, and the watchers that this process owns; without one, all that anybody owns."""
        began = boot_seconds()
        database = self._running.direct
        rows = await self._running.patiently(lambda: database.fetch("chaos/owned", owner))
        at = await self._running.patiently(lambda: database.fetchval("processes/now"))
        return Struck(began, at, [r["id"] for r in rows], owner)

    async def process(self, kind: str, victim: Row, count: int) -> None:
        """Until as many processes of the victim's role as before hold their lease."""
        began, times = boot_seconds(), self.times.setdefault(kind, Times())
        while boot_seconds() < began + WITHIN:
            await asyncio.sleep(LOOK_SECONDS)
            others = [p for p in await self._running.processes(victim["kind"]) if p["id"] != victim["id"]]
            if len(others) >= count:
                times.seconds.append(boot_seconds() - began)
                return
        times.never += 1

    async def watchers(self, kind: str, struck: Struck) -> None:
        """Until each of the watchers has looked at its source again, under another owner if one was struck."""
        left = set(struck.watchers)
        times = self.times.setdefault(kind, Times()) if left else Times()
        while left and boot_seconds() < struck.began + WITHIN:
            await asyncio.sleep(LOOK_SECONDS)
            look = partial(self._running.direct.fetch, "chaos/observed_again", sorted(left), struck.owner, struck.at)
            rows = await self._running.patiently(look)
            again = {r["id"] for r in rows}
            times.seconds += [boot_seconds() - struck.began] * len(again)
            left -= again
        times.never += len(left)
