"""What every source must do. Each test runs on each kind, with real repositories, servers and files behind it."""

from __future__ import annotations

import asyncio
import json

import pytest
from harness import Source, children, open_files, own_threads

from onceflow.sdk.trigger import Checkpoint
from support import eventually
from watch import keys, rebuilt, watching

CYCLES = 12
CHANGES = 4
others: set[int] = set()


async def test_without_a_change_there_is_no_event(source: Source) -> None:
    async with watching(source.trigger()) as watch:
        await watch.quiet()
        await source.disturb()
        await watch.quiet()
        await source.change()
        assert len(await watch.next()) == 1
        await watch.quiet()


async def test_each_change_is_one_event_with_a_key_of_its_own(source: Source) -> None:
    async with watching(source.trigger()) as watch:
        await watch.quiet(looks=2)
        seen = []
        for _ in range(CHANGES):
            await source.change()
            seen += await watch.next()
        assert len(seen) == CHANGES
        assert len(set(keys(seen))) == CHANGES
        assert all(event.key and 1 <= len(event.key.encode()) <= 1024 for event in seen)
        assert all(json.loads(json.dumps(event.payload)) == event.payload for event in seen)


@pytest.mark.parametrize("acknowledged", range(CHANGES))
async def test_given_up_at_any_yield_it_goes_on_without_a_gap(source: Source, acknowledged: int) -> None:
    """dbos-inc/dbos-transact-py#733, airflow #65103: the cursor moves only with what was committed."""
    before = await first_cursor(source)
    committed = []
    async with watching(source.trigger(), before) as watch:
        for _ in range(acknowledged):
            await source.change()
            committed += await watch.next()
        await source.change()
        lost = await watch.next()  # never committed: the owner dies here
        cursor = await watch.close()
    async with watching(source.trigger(), cursor) as successor:
        again = await successor.next()
        assert keys(again) == keys(lost)
        assert [event.payload for event in again] == [event.payload for event in lost]
        await source.change()
        last = await successor.next()
        await successor.quiet()
    found = keys(committed) + keys(again) + keys(last)
    assert len(found) == len(set(found)) == acknowledged + 2


async def test_two_instances_call_a_change_by_the_same_key(source: Source) -> None:
    """airflow #65792: whoever watches, a change has one identity."""
    before = await first_cursor(source)
    await source.change()
    async with watching(source.trigger(), before) as one, watching(source.trigger(), before) as other:
        first, second = await asyncio.gather(one.next(), other.next())
    assert keys(first) == keys(second)
    assert [event.payload for event in first] == [event.payload for event in second]


async def test_an_error_is_raised_and_outlived(source: Source) -> None:
    """airflow #72376, kestra-io/kestra#17988: failing is visible, and what came meanwhile is found afterwards."""
    cursor = await first_cursor(source)
    await source.change()
    await source.break_down()
    async with watching(source.trigger(), cursor) as watch:
        with pytest.raises(Exception, match=r".+"):
            await watch.next()
        assert watch.looks == 0
        assert watch.cursor == cursor
    await source.repair()
    async with watching(source.trigger(), cursor) as watch:
        assert len(await watch.next()) == 1
        await watch.quiet()


async def test_breaking_while_it_is_watched_is_an_error_too(source: Source) -> None:
    async with watching(source.trigger()) as watch:
        await watch.quiet(looks=2)
        await source.break_down()
        with pytest.raises(Exception, match=r".+"):
            await watch.next()
    await source.repair()


async def test_a_failing_start_leaves_nothing_behind(source: Source) -> None:
    await source.break_down()
    await fail_once(source)
    files = await settled_files()
    for _ in range(CYCLES):
        await fail_once(source)
    await nothing_left(files)
    await source.repair()


async def test_opening_and_closing_leaves_nothing_behind(source: Source) -> None:
    """airflow #65560: the number of open files stays the same."""
    cursor = await first_cursor(source)
    await look_once(source, cursor)
    files = await settled_files()
    for _ in range(CYCLES):
        await look_once(source, cursor)
    await nothing_left(files)


async def test_closed_in_the_middle_of_a_look_it_leaves_nothing_behind(source: Source) -> None:
    cursor = await first_cursor(source)
    await source.change()
    await look_once(source, cursor)
    files = await settled_files()
    for turns in range(CYCLES):
        async with watching(source.trigger(), cursor) as watch:
            waiting = asyncio.create_task(watch.next())
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
    await nothing_left(files)


async def test_cleanup_may_come_before_the_start_and_twice(source: Source) -> None:
    trigger = source.trigger()
    await trigger.cleanup()
    await trigger.cleanup()


async def test_arguments_survive_being_stored(source: Source) -> None:
    """airflow #52693, #64625: the same declaration is the same stored form, and gives the same trigger."""
    trigger = source.trigger()
    path, arguments = trigger.serialize()
    assert json.loads(json.dumps(arguments)) == arguments
    assert rebuilt(trigger).serialize() == (path, arguments) == source.trigger().serialize()


async def test_the_first_cursor_can_be_stored(source: Source) -> None:
    trigger = source.trigger()
    item = await anext(trigger.run().__aiter__())
    assert isinstance(item, Checkpoint)
    assert json.loads(json.dumps(item.cursor)) == item.cursor
    await trigger.cleanup()


async def first_cursor(source: Source) -> object:
    """The cursor of a watcher that has seen what there is."""
    async with watching(source.trigger()) as watch:
        await watch.quiet(looks=2)
        watch.commit()
        return watch.cursor


async def look_once(source: Source, cursor: object) -> None:
    async with watching(source.trigger(), cursor) as watch:
        waiting = asyncio.create_task(watch.next())
        await eventually(lambda: watch.looks >= 1 or waiting.done())
        waiting.cancel()
        await asyncio.wait([waiting])


async def fail_once(source: Source) -> None:
    async with watching(source.trigger(), cursor="0" * 40 if "Git" in type(source).__name__ else None) as watch:
        with pytest.raises(Exception, match=r".+"):
            await watch.next()


@pytest.fixture(autouse=True)
def begun_by_others() -> None:
    """Children of this process that are no matter of these tests, such as a server that other tests use."""
    others.clear()
    others.update(children())


async def settled_files() -> int:
    """The number of open files once what was closed is closed."""
    await eventually(lambda: not own_threads() and children() <= others, why="threads and processes to end")
    return open_files()


async def nothing_left(files: int) -> None:
    await eventually(lambda: not own_threads(), why=f"threads to end: {own_threads()}")
    await eventually(lambda: children() <= others, why="child processes to end")
    await eventually(lambda: open_files() <= files, why=f"open files to be {files} again")
    assert {
        task for task in asyncio.all_tasks() if task is not asyncio.current_task() and "ssh" not in repr(task)
    } == set()
