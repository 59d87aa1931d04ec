"""The service loop: wakes, looks again, backs off, stops, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from onceflow.model.errors import FencedError
from onceflow.runtime.service import LOOKS, Service, run_service
from onceflow.runtime.wakeups import Wakeups
from onceflow.store.waiting import done_within
from support import eventually


class Scripted(Service):
    """Answers as the script says, then always "nothing to do"."""

    name = "scripted"
    topics = ("topic",)
    poll = 3600.0

    def __init__(self, *script: Callable[[Scripted], bool]) -> None:
        self._script = list(script)
        self.runs = 0

    async def run_once(self) -> bool:
        self.runs += 1
        return self._script.pop(0)(self) if self._script else False


def work(_: Scripted) -> bool:
    return True


def nothing(_: Scripted) -> bool:
    return False


def locked(service: Scripted) -> bool:
    service.contended = True
    return False


def failure(_: Scripted) -> bool:
    raise RuntimeError("the script says so")


@pytest.fixture
async def run():
    """Runs services until the test ends, then stops them and sees them end."""
    stop, wakeups = asyncio.Event(), Wakeups()
    tasks: list[asyncio.Task[None]] = []

    def start(service: Service) -> Wakeups:
        tasks.append(asyncio.create_task(run_service(service, wakeups, stop)))
        return wakeups

    yield start
    stop.set()
    wakeups.wake_all()
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert not [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]


async def test_runs_on_while_there_is_work(run):
    service = Scripted(work, work, work)
    run(service)
    await eventually(lambda: service.runs == 4)


async def test_sleeps_until_it_is_woken(run):
    service = Scripted(nothing)
    wakeups = run(service)
    await eventually(lambda: service.runs == 1)
    wakeups.notify("another topic")
    wakeups.notify("topic")
    await eventually(lambda: service.runs == 2)


async def test_a_wake_up_while_it_works_is_not_lost(run):
    wakeups = Wakeups()

    def woken_meanwhile(_: Scripted) -> bool:
        wakeups.notify("topic")
        return False

    service = Scripted(woken_meanwhile)
    wakeups = run(service)
    await eventually(lambda: service.runs == 2)


async def test_looks_again_when_work_was_locked(run):
    service = Scripted(*[locked] * 20)
    run(service)
    await eventually(lambda: service.runs == 1 + len(LOOKS))


async def test_an_error_is_backed_off_and_the_loop_goes_on(run):
    service = Scripted(failure, failure, work)
    run(service)
    await eventually(lambda: service.runs == 4)


async def test_polls_without_any_wake_up(run):
    service = Scripted()
    service.poll = 0.01
    run(service)
    await eventually(lambda: service.runs >= 3)


async def test_a_fenced_service_ends_its_process():
    def fenced(_: Scripted) -> bool:
        raise FencedError("somebody else owns this now")

    with pytest.raises(FencedError):
        await run_service(Scripted(fenced), Wakeups(), asyncio.Event())


async def test_a_hundred_starts_and_stops_leave_no_task_behind():
    for _ in range(100):
        stop, wakeups = asyncio.Event(), Wakeups()
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(run_service(Scripted(work), wakeups, stop))
            await asyncio.sleep(0)
            stop.set()
            wakeups.wake_all()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_does_not_end_when_it_is_cancelled_is_not_waited_for() -> None:
    """A driver whose server stands still waits for the server's answer to its wish to cancel."""
    let_go = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await let_go.wait()

    with pytest.raises(TimeoutError):
        await done_within(stubborn(), 0.01)
    [left] = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    assert not left.done()
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await left
    assert await done_within(asyncio.sleep(0, "done"), 10) == "done"
