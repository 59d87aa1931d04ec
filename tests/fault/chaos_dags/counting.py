"""Sources that count, by the clock: every so often is a change, whether or not somebody looks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from onceflow import DAG, Asset, AssetAny, AssetWatcher, BaseEventTrigger, MessageId, TriggerEvent

TICK = 0.2
CLOCKS = 6


class Clock(BaseEventTrigger):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"counting.{type(self).__name__}", {"name": self.name}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        began, number = self.cursor or (time.monotonic(), 0)
        while True:
            now = int((time.monotonic() - began) / TICK)
            while number < now:
                number += 1
                yield TriggerEvent({"chaos_number": number}, message_id=self.message(number), cursor=[began, number])
            await asyncio.sleep(TICK)

    def message(self, number: int) -> MessageId | None:
        return None


class Tape(Clock):
    """Its changes are known by their number."""

    ordered = True

    def message(self, number: int) -> MessageId | None:
        return MessageId("tape", number)


clocks = [
    Asset(name, watchers=[AssetWatcher(name, trigger=Clock(name))]) for name in (f"clock {n}" for n in range(CLOCKS))
]
tape = Asset("tape", protection="high-water", watchers=[AssetWatcher("tape", trigger=Tape("tape"))])

with DAG("counted", schedule=AssetAny(*clocks, tape), max_active_runs=1000):
    pass
