"""Stops a process where it hurts: inside a transaction, if one is met in a few tries."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable, Hashable

LOOK_TWICE = 0.02
LONGEST_WAIT = 0.02

Open = Callable[[], Awaitable[set[Hashable]]]
"""The transactions of the process's kind that stand open while their client says nothing."""


async def stop(pid: int, open_now: Open, chance: random.Random, tries: int) -> bool | None:
    """Stop a process at a random moment: whether that is inside a transaction; None if there is no such process.

    It is stopped in any case, after so many tries wherever it is.
    """
    for left in range(max(1, tries), 0, -1):
        if not send(pid, signal.SIGSTOP):
            return None
        try:
            if tries and await _stands(open_now):
                return True
        except BaseException:
            send(pid, signal.SIGCONT)
            raise
        if left > 1:
            send(pid, signal.SIGCONT)
            await asyncio.sleep(chance.uniform(0.001, LONGEST_WAIT))
    return False


async def _stands(open_now: Open) -> bool:
    """Whether a transaction stays open while nobody speaks to it: the stopped process's."""
    before = await open_now()
    await asyncio.sleep(LOOK_TWICE)
    return bool(before & await open_now()) if before else False


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; False if there is no such process any more."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
