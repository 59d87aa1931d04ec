"""Waiting for an event with a limit, in one place."""

from __future__ import annotations

import asyncio


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
