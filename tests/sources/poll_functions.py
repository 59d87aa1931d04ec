"""Poll functions and classes of an importable module, as users write them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from onceflow.sdk.trigger import TriggerEvent
from onceflow.sources.poll import Polled, PollTrigger, poll_trigger


@poll_trigger(interval=0.01)
async def countdown(cursor: Any, start: int, step: int = 1) -> tuple[list[TriggerEvent], Any]:
    """Counts down, one event per look."""
    left = start if cursor is None else cursor
    return ([TriggerEvent(left, key=str(left))] if left > 0 else []), max(left - step, 0)


@poll_trigger(cron="*/5 * * * *", timezone="Europe/Berlin")
async def on_the_clock(cursor: Any, **options: Any) -> tuple[list[TriggerEvent], Any]:
    return [TriggerEvent(options)], cursor


@poll_trigger(interval=timedelta(hours=1))
async def paged(cursor: Any) -> Polled:
    """Three pages at once, then silence for an hour."""
    page = (cursor or 0) + 1
    if page > 3:
        return Polled()
    return Polled([TriggerEvent(page, key=str(page), cursor=page)], more=True)


class Scripted(PollTrigger):
    """Returns, or raises, one thing after another."""

    interval = 0.001

    def __init__(self) -> None:
        super().__init__()
        self.script: list[Any] = []
        self.cursors: list[Any] = []

    async def poll(self, cursor: Any) -> Any:
        self.cursors.append(cursor)
        if not self.script:
            await asyncio.Event().wait()
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step
