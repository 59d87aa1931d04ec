"""What sources share in a process: threads, wake-ups, and a small import."""

from __future__ import annotations

import asyncio
import importlib.metadata
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceflow.model.errors import SourceError
from onceflow.sources._threads import THREADS, in_thread
from onceflow.sources._wake import Listener
from onceflow.sources.files import FileTrigger
from support import eventually, python
from watch import Watch


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hanging threads wait for; open at the end in any case."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_resource_that_hangs_takes_one_thread_however_often_it_is_asked(gate: threading.Event) -> None:
    with pytest.raises(SourceError, match=r"no answer within 0\.01 s"):
        await in_thread("dead:/mount", 0.01, gate.wait)
    for _ in range(2 * THREADS):
        with pytest.raises(SourceError, match="still hangs"):
            await in_thread("dead:/mount", 0.01, gate.wait)
    assert await in_thread("alive", 5, lambda: 42) == 42
    gate.set()
    await eventually(lambda: asks_again("dead:/mount"))


async def asks_again(resource: str) -> bool:
    try:
        return await in_thread(resource, 5, lambda: True)
    except SourceError:
        return False


async def test_when_all_threads_are_busy_the_error_says_so(gate: threading.Event) -> None:
    hanging = [asyncio.create_task(in_thread(f"slow {n}", 60, gate.wait)) for n in range(THREADS)]
    await asyncio.sleep(0)
    with pytest.raises(SourceError, match=f"all {THREADS} source threads were busy"):
        await in_thread("another", 0.05, lambda: 42)
    gate.set()
    await asyncio.gather(*hanging)


async def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    def fail() -> None:
        raise TimeoutError("of the work's own")

    with pytest.raises(TimeoutError, match="own"):
        await in_thread("x", 5, fail)


async def test_hundreds_of_listeners_share_one_thread_and_each_hears_only_its_own(tmp_path: Path) -> None:
    places = [tmp_path / str(n) for n in range(300)]
    for place in places:
        place.mkdir()
    listeners = [Listener([str(place)]) for place in places]
    heard = [asyncio.create_task(listener.wait(60)) for listener in listeners]

    async def told() -> bool:
        (places[7] / "file").touch()
        return heard[7].done()

    await eventually(told, every=0.2)
    assert [n for n, task in enumerate(heard) if task.done()] == [7]
    assert sum(thread.name == "onceflow-wake" for thread in threading.enumerate()) == 1
    for task in heard:
        task.cancel()
    for listener in listeners:
        listener.close()
    await eventually(lambda: not any(thread.name == "onceflow-wake" for thread in threading.enumerate()))


async def test_a_place_that_is_not_there_yet_is_no_error_for_a_listener(tmp_path: Path) -> None:
    listener = Listener([str(tmp_path / "later")])
    await listener.wait(0.05)
    listener.close()


async def test_a_thousand_watchers_run_together(tmp_path: Path) -> None:
    """They look seldom, and are woken by what changes."""
    files = [tmp_path / str(n) / "file" for n in range(1000)]
    for file in files:
        file.parent.mkdir()
    watches = [Watch(FileTrigger(str(file), interval=600, settle=0)) for file in files]
    waiting = [asyncio.create_task(watch.next()) for watch in watches]
    await eventually(lambda: all(watch.looks for watch in watches))

    async def told() -> bool:
        for file in files[::100]:
            file.write_text("x")
        return all(task.done() for task in waiting[::100])

    await eventually(told, every=0.5)
    assert sum(task.done() for task in waiting) == 10
    for watch, task in zip(watches, waiting, strict=True):
        task.cancel()
        await watch.close()


def test_declaring_a_source_loads_no_large_library() -> None:
    code = """
import sys
from onceflow.sources import FileTrigger, GitHeadTrigger, poll_trigger
GitHeadTrigger("https://example.org/x.git"); FileTrigger("/data/*.csv")
heavy = {"dulwich", "urllib3", "watchfiles", "asyncpg", "fastapi", "cronsim"}
print(sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
"""
    with python(code) as process:
        assert process.communicate()[0].strip() == "[]"


def test_the_sources_are_entry_points() -> None:
    found = importlib.metadata.entry_points(group="onceflow.sources")
    if not found:
        pytest.skip("the package was installed before its entry points were declared")
    assert {point.name: point.load().__name__ for point in found} == {"git": "GitHeadTrigger", "file": "FileTrigger"}
