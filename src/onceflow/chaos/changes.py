"""Makes changes, a part of them again and again, and remembers which were acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from uuid import uuid4

from onceflow.chaos.installation import Installation
from onceflow.model.clock import boot_seconds
from onceflow.store.emit import change, emit

BATCH = 40
REPEATS = 0.2
SOURCE = {"kind": "chaos"}


class Changes:
    """Emits changes with keys on the given assets. `told`: (asset, key) that were acknowledged."""

    def __init__(self, running: Installation, assets: Sequence[str], seed: int) -> None:
        self._running = running
        self._assets = list(assets)
        self._chance = random.Random(seed)
        self.told: list[tuple[str, str]] = []
        self.sightings = 0

    async def run(self, count: int, seconds: float) -> None:
        """Emit so many, spread evenly over the time; through the proxy, as any client would."""
        began = boot_seconds()
        while self._assets and self.sightings < count:
            due = min(count, int(count * min(1.0, (boot_seconds() - began) / seconds)) + 1)
            if due <= self.sightings:
                await asyncio.sleep(0.02)
                continue
            await self._tell(min(BATCH, due - self.sightings))

    async def _tell(self, count: int) -> None:
        new: list[tuple[str, str]] = []
        for number in range(count):
            known = self.told or new
            if known and self._chance.random() < REPEATS:
                new.append(self._chance.choice(known))
            else:
                new.append((self._chance.choice(self._assets), f"chaos {self.sightings + number}"))
        sent = [change(a, k, {"number": n, "of": "chaos"}, sighting=uuid4()) for n, (a, k) in enumerate(new)]
        await self._running.patiently(lambda: emit(self._running.behind, sent, SOURCE))
        self.told += new
        self.sightings += count
