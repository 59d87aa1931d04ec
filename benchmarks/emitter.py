"""Emits changes as the API server does: recorded in one transaction, then a coalesced wake-up."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from onceflow.model.change import Change
from onceflow.runtime.wakeups import Wakeups
from onceflow.store.database import Database
from onceflow.store.events import record

SOURCE = {"kind": "bench"}


class Emitter:
    """One client. Use `Emitter.connected`."""

    def __init__(self, database: Database, wakeups: Wakeups) -> None:
        self.database = database
        self._wakeups = wakeups

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str) -> AsyncGenerator[Emitter]:
        """A client with connections of its own."""
        stop, wakeups = asyncio.Event(), Wakeups()
        bell = wakeups.connect(url, uuid.uuid4(), lease_seconds=5, kind="bench")
        async with await Database.connect(url, kind="bench", max_size=8) as database, asyncio.TaskGroup() as group:
            ringing = group.create_task(bell.run(stop))
            try:
                yield cls(database, wakeups)
            finally:
                stop.set()
                ringing.cancel()

    async def emit(self, asset: str, events: int = 1, extra: str = "{}") -> tuple[list[int], float]:
        """Record so many changes of the asset in one transaction: the events' ids, and the time of the answer."""
        changes = [Change(asset, extra, None, uuid.uuid4()) for _ in range(events)]
        recorded = await record(self.database, changes, SOURCE)
        committed = time.time()
        self.wake("delivery")
        return [r.event_id for r in recorded], committed

    def wake(self, topic: str) -> None:
        """Tell the system's processes of something."""
        self._wakeups.notify(topic)
