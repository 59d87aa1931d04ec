"""Waiting for an event with a limit, in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
_begun: set[asyncio.Task[Any]] = set()


async def happens_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event, at most so many seconds; whether it happened.

    Not `asyncio.wait_for`: in Python 3.11 that swallows a cancellation now and then, and the loop around it goes on.
    """
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def done_within(work: Coroutine[Any, Any, Result], seconds: float) -> Result:
    """The result of the work, waited for at most so many seconds. Raises TimeoutError.

    Unlike `asyncio.timeout` it does not wait for the end of what it cancels: a driver whose server is frozen asks it to
    cancel the statement, and waits for the answer.
    """
    task = asyncio.get_running_loop().create_task(work)
    _begun.add(task)
    task.add_done_callback(_end)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()
    if not task.done():
        raise TimeoutError
    return task.result()


def _end(task: asyncio.Task[Any]) -> None:
    """Who waited has its result or error, or has gone on."""
    _begun.discard(task)
    if not task.cancelled():
        task.exception()
