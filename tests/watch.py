"""Drives a trigger as a triggerer does, without one."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from onceflow.sdk.trigger import UNSET, BaseEventTrigger, Checkpoint, TriggerEvent
from support import eventually


class Watch:
    """One watcher's trigger under a stand-in for its host.

    What a trigger yields counts as committed when the trigger is asked for more, as in the triggerer. `cursor` is the
    committed cursor; `pending` is what was yielded and is not committed.
    """

    def __init__(self, trigger: BaseEventTrigger, cursor: Any = None) -> None:
        self.trigger = rebuilt(trigger)
        self.trigger.cursor = cursor
        self.trigger._report = self._observed
        self.cursor = cursor
        self.looks = 0
        self.pending: list[TriggerEvent] = []
        self._pending_cursor: Any = UNSET
        self._items = self.trigger.run().__aiter__()
        self._next: asyncio.Task[Any] | None = None

    def _observed(self) -> None:
        self.looks += 1

    async def next(self) -> list[TriggerEvent]:
        """Commit what was yielded, and wait for the next events."""
        while True:
            self.commit()
            item = await self._advance()
            self.pending = [] if isinstance(item, Checkpoint) else list(item) if isinstance(item, list) else [item]
            for part in [item] if isinstance(item, Checkpoint) else self.pending:
                if part.cursor is not UNSET:
                    self._pending_cursor = json.loads(json.dumps(part.cursor))
            if self.pending:
                return self.pending

    async def events(self, count: int) -> list[TriggerEvent]:
        """The next events, at least so many."""
        found: list[TriggerEvent] = []
        while len(found) < count:
            found += await self.next()
        return found

    async def quiet(self, looks: int = 3) -> None:
        """Wait until it has looked so many times more; fails if it yields an event meanwhile."""
        until = self.looks + looks
        waiting = asyncio.create_task(self.next())
        await eventually(lambda: self.looks >= until or waiting.done(), why="the source to look again")
        assert not waiting.done(), f"an event without a change: {waiting.result()}"
        await self._cancelled(waiting)

    def commit(self) -> None:
        if self._pending_cursor is not UNSET:
            self.cursor, self._pending_cursor = self._pending_cursor, UNSET
        self.pending = []

    async def close(self) -> Any:
        """Give the trigger up where it stands; the committed cursor."""
        if self._next is not None:
            await self._cancelled(self._next)
            self._next = None
        await self._items.aclose()  # type: ignore[attr-defined]
        await self.trigger.cleanup()
        return self.cursor

    async def _advance(self) -> Any:
        # The step goes on when the wait for it is cancelled: a generator must not be cancelled half-way and used again.
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._items))
        item = await asyncio.shield(self._next)
        self._next = None
        return item

    @staticmethod
    async def _cancelled(task: asyncio.Task[Any]) -> None:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task


@asynccontextmanager
async def watching(trigger: BaseEventTrigger, cursor: Any = None) -> AsyncIterator[Watch]:
    """A watch that is closed at the end."""
    watch = Watch(trigger, cursor)
    try:
        yield watch
    finally:
        await watch.close()


def rebuilt(trigger: BaseEventTrigger) -> BaseEventTrigger:
    """The trigger as another process makes it from what was stored."""
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    cls = getattr(importlib.import_module(module), name)
    return cls(**json.loads(json.dumps(arguments)))


def keys(events: list[TriggerEvent]) -> list[str | None]:
    return [event.key for event in events]
