"""Timers that many pollers share: who sleeps wakes on a grid, who works has a limit that is looked at once a second.

A thousand pollers with timers of their own wake the event loop for each of their polls. On a grid those that are due at
about the same time are woken together, by one timer, and a limit that is hardly ever reached costs no timer at all.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

FINENESS = 20
"""A sleep may be longer by this part of it, so far as that is no more than LONGEST."""
LONGEST = 0.1
LOOK_SECONDS = 1.0


class Ticks:
    """The shared timers of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sleepers: dict[float, list[asyncio.Future[None]]] = {}
        self._limits: dict[asyncio.Timeout, float] = {}
        self._looking = False

    async def sleep(self, seconds: float) -> None:
        """Sleep for so long, and on to the next point of a grid."""
        grid = min(LONGEST, 2.0 ** math.floor(math.log2(seconds / FINENESS))) if seconds > 0 else 0.0
        if grid == 0:
            await asyncio.sleep(0)
            return
        when = math.ceil((self._loop.time() + seconds) / grid) * grid
        sleeper = self._loop.create_future()
        if when not in self._sleepers:
            self._sleepers[when] = []
            self._loop.call_at(when, self._wake, when)
        self._sleepers[when].append(sleeper)
        await sleeper

    @asynccontextmanager
    async def limit(self, seconds: float | None) -> AsyncGenerator[asyncio.Timeout]:
        """As asyncio.timeout, but up to LOOK_SECONDS late where that matters little."""
        shared = seconds is not None and seconds >= FINENESS * LOOK_SECONDS
        async with asyncio.timeout(None if shared else seconds) as limit:
            if shared and seconds is not None:
                self._limits[limit] = self._loop.time() + seconds
                self._look_later()
            try:
                yield limit
            finally:
                self._limits.pop(limit, None)

    def _wake(self, when: float) -> None:
        for sleeper in self._sleepers.pop(when):
            if not sleeper.done():
                sleeper.set_result(None)

    def _look_later(self) -> None:
        if not self._looking:
            self._looking = True
            self._loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._looking = False
        now = self._loop.time()
        for limit in [x for x, until in self._limits.items() if until <= now]:
            del self._limits[limit]
            limit.reschedule(now)
        if self._limits:
            self._look_later()


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Ticks] = WeakKeyDictionary()


def ticks() -> Ticks:
    """The shared timers of the running loop."""
    loop = asyncio.get_running_loop()
    found = _of_loop.get(loop)
    if found is None:
        found = _of_loop[loop] = Ticks(loop)
    return found
