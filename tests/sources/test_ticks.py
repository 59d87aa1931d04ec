"""Pollers share their timers: what counts is how often the event loop is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from onceflow.sources import _ticks
from onceflow.sources._ticks import ticks
from support import eventually


class Timers:
    """Counts the timers that are set on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at: list[float] = []
        real = loop.call_at

        def call_at(when: float, *args: object, **options: object) -> asyncio.TimerHandle:
            self.at.append(when)
            return real(when, *args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "call_at", call_at)


@pytest.fixture
async def timers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Timers]:  # type: ignore[misc]
    yield Timers(asyncio.get_running_loop(), monkeypatch)


async def test_those_who_sleep_about_as_long_are_woken_together(timers: Timers) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    lengths = [1.0 + n / 4000 for n in range(400)]  # 1 to 1.1 s

    async def sleeper(seconds: float) -> tuple[float, float]:
        await ticks().sleep(seconds)
        return seconds, loop.time() - begin

    async with asyncio.TaskGroup() as group:
        asleep = [group.create_task(sleeper(s)) for s in lengths]
    assert len(timers.at) <= 6
    assert all(after >= seconds for seconds, after in (a.result() for a in asleep)), "nobody is woken early"


async def test_who_is_cancelled_is_woken_no_more() -> None:
    asleep = [asyncio.ensure_future(ticks().sleep(0.2)) for _ in range(3)]
    await asyncio.sleep(0)
    asleep[0].cancel()
    await eventually(lambda: all(a.done() for a in asleep), why="the others wake")
    assert [a.cancelled() for a in asleep] == [True, False, False]


async def test_a_long_limit_costs_no_timer(timers: Timers) -> None:
    for _ in range(100):
        async with ticks().limit(60.0) as limit:
            await asyncio.sleep(0)
        assert not limit.expired()
    async with ticks().limit(None):
        pass
    assert len(timers.at) == 1


async def test_limits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one by its own timer, a long one when it is looked at."""
    monkeypatch.setattr(_ticks, "LOOK_SECONDS", 0.01)
    for seconds in (0.05, 0.25):
        with pytest.raises(TimeoutError):
            async with ticks().limit(seconds) as limit:
                await asyncio.Event().wait()
        assert limit.expired()
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0
