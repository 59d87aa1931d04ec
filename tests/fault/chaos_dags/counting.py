"""A source that counts: each number is a change, told by a watcher that any triggerer may have to take over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from onceflow import DAG, Asset, AssetWatcher, BaseEventTrigger, TriggerEvent


class Counter(BaseEventTrigger):
    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "counting.Counter", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        number = self.cursor or 0
        while True:
            await asyncio.sleep(0.1)
            number += 1
            yield TriggerEvent({"number": number}, cursor=number)


with DAG("counted", schedule=Asset("numbers", watchers=[AssetWatcher("counter", trigger=Counter())])):
    pass
