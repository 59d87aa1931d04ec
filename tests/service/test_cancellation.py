"""A service loop that is cancelled ends, also when it is woken in the same moment."""

from __future__ import annotations

import asyncio

import pytest

from onceflow.runtime.service import Service, run_service
from onceflow.runtime.wakeups import Wakeups


class Idle(Service):
    name = "idle"
    topics = ("run",)
    poll = 60.0
    rest = 0.0

    async def run_once(self) -> bool:
        return False


@pytest.mark.parametrize("turns", range(6))
async def test_cancelled_while_woken(turns: int) -> None:
    """`asyncio.wait_for` swallows a cancellation that meets the end of what it waits for (Python 3.11).

    A loop that went on would be a process that lost its lease and works on, and a stop that never comes to its end.
    """
    wakeups = Wakeups()
    loop = asyncio.get_running_loop()
    task = loop.create_task(run_service(Idle(), wakeups, asyncio.Event()))
    for _ in range(20):
        await asyncio.sleep(0)
    wakeups.wake("run")
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=60)
    assert done, "the loop went on"
    assert task.cancelled()
