"""The helper that turns a poll into a trigger."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from poll_functions import Scripted, countdown, on_the_clock, paged

from onceflow.model.errors import DagError, SourceError
from onceflow.sdk.trigger import UNSET, BaseEventTrigger, Checkpoint, TriggerEvent
from onceflow.sources.poll import PollTrigger, next_slot, poll_trigger
from support import eventually
from watch import keys, rebuilt, watching


async def items(trigger: BaseEventTrigger, count: int) -> list[Any]:
    """The next things it yields."""
    running = trigger.run().__aiter__()
    found = [await anext(running) for _ in range(count)]
    await running.aclose()  # type: ignore[attr-defined]
    return found


async def test_the_events_of_a_poll_are_one_list_whose_last_carries_the_cursor() -> None:
    trigger = Scripted()
    trigger.script = [([TriggerEvent(1, key="a"), TriggerEvent(2, key="b")], 7)]
    (found,) = await items(trigger, 1)
    assert [(event.key, event.cursor) for event in found] == [("a", UNSET), ("b", 7)]


async def test_a_moved_cursor_without_events_is_a_checkpoint_and_an_unmoved_one_nothing() -> None:
    trigger = Scripted()
    trigger.cursor = 1
    trigger.script = [([], 1), ([], 2), ([], 2), ([], 3)]
    assert await items(trigger, 2) == [Checkpoint(2), Checkpoint(3)]
    assert trigger.cursors == [1, 1, 2, 2]


async def test_events_without_a_cursor_are_possible() -> None:
    trigger = Scripted()
    trigger.script = [([TriggerEvent(1, key="a")], None)]
    assert await items(trigger, 1) == [[TriggerEvent(1, key="a")]]


async def test_a_class_that_keeps_no_cursor_stores_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """For mode="all": the cursor lives as long as the start, and nothing of it is yielded."""
    monkeypatch.setattr(Scripted, "has_cursor", False)
    trigger = Scripted()
    trigger.script = [([TriggerEvent(1, key="a")], 7), ([], 8), ([TriggerEvent(2, key="b", cursor=9)], UNSET)]
    assert await items(trigger, 2) == [[TriggerEvent(1, key="a")], [TriggerEvent(2, key="b")]]
    assert trigger.cursors == [None, 7, 8]


async def test_each_successful_poll_is_an_observation_and_a_failed_one_is_not() -> None:
    """apache/airflow#32091: liveness is the last successful observation."""
    seen = []
    trigger = Scripted()
    trigger._report = lambda: seen.append(len(trigger.cursors))
    trigger.script = [([], None), ([], None), OSError("the source is down")]
    with pytest.raises(OSError, match="the source is down"):
        await items(trigger, 1)
    assert seen == [1, 2]


async def test_the_next_poll_gets_the_cursor_only_after_the_events_are_committed() -> None:
    trigger = Scripted()
    trigger.script = [([TriggerEvent(1, key="a")], 5), ([], 5)]
    running = trigger.run().__aiter__()
    await anext(running)
    assert trigger.cursor is None
    waiting = asyncio.ensure_future(anext(running))
    await eventually(lambda: len(trigger.cursors) == 3)
    assert trigger.cursors == [None, 5, 5]
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_large_poll_is_cut_into_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PollTrigger, "batch", 2)
    trigger = Scripted()
    trigger.script = [([TriggerEvent(n, key=str(n)) for n in range(5)], 5)]
    found = await items(trigger, 3)
    assert [len(part) for part in found] == [2, 2, 1]
    assert [part[-1].cursor for part in found] == [UNSET, UNSET, 5]


async def test_more_polls_again_at_once() -> None:
    async with watching(paged()) as watch:
        assert keys(await watch.events(3)) == ["1", "2", "3"]
    assert watch.cursor == 2


@pytest.mark.parametrize("result", [None, [TriggerEvent(1)], ("ab", 1), ([{"not": "an event"}], 1), ([], 1, False, 4)])
async def test_a_poll_that_returns_something_else_is_told_what_to_return(result: object) -> None:
    trigger = Scripted()
    trigger.script = [result]
    with pytest.raises(TypeError, match="Scripted: a poll returns"):
        await items(trigger, 1)


async def test_a_poll_that_hangs_is_an_error() -> None:
    trigger = Scripted()
    trigger.poll_timeout = 0.01
    with pytest.raises(SourceError, match=r"longer than 0\.01 s"):
        await items(trigger, 1)


async def test_a_time_out_of_the_users_own_stays_what_it_is() -> None:
    trigger = Scripted()
    trigger.script = [TimeoutError("mine")]
    with pytest.raises(TimeoutError, match="mine"):
        await items(trigger, 1)


async def test_a_function_becomes_a_trigger() -> None:
    trigger = countdown(start=3)
    assert isinstance(trigger, PollTrigger)
    assert trigger.serialize() == ("poll_functions.countdown", {"start": 3})
    assert countdown.__doc__ == "Counts down, one event per look."
    async with watching(trigger) as watch:
        assert keys(await watch.events(3)) == ["3", "2", "1"]
        await watch.quiet()


async def test_arguments_may_be_given_in_any_way_and_are_stored_by_name() -> None:
    assert countdown(3, step=2).serialize() == countdown(start=3, step=2).serialize()
    again = rebuilt(countdown(3, interval=0.5))
    assert isinstance(again, PollTrigger)
    assert (again.interval, again.serialize()[1]) == (0.5, {"start": 3, "interval": 0.5})
    assert rebuilt(on_the_clock(region="north", level=2)).serialize()[1] == {"region": "north", "level": 2}


def test_the_schedule_of_the_function_holds_unless_the_trigger_has_its_own() -> None:
    first, second = on_the_clock(), on_the_clock(interval=3)
    assert (first.cron, first.timezone) == ("*/5 * * * *", "Europe/Berlin")
    assert (second.cron, second.interval) == (None, 3)


@pytest.mark.parametrize("arguments", [{}, {"start": 1, "stop": 2}, {"start": 1, "interval": "often"}])
def test_wrong_arguments_are_refused_where_they_are_given(arguments: dict[str, Any]) -> None:
    with pytest.raises(DagError, match="countdown"):
        countdown(**arguments)


def test_functions_that_cannot_be_used_are_refused() -> None:
    async def inside(cursor: Any) -> Any: ...

    with pytest.raises(DagError, match="inside another function"):
        poll_trigger(interval=1)(inside)
    with pytest.raises(DagError, match="async def"):
        poll_trigger(interval=1)(not_async)
    with pytest.raises(DagError, match="first parameter is the cursor"):
        poll_trigger(interval=1)(no_cursor)
    with pytest.raises(DagError, match="named interval"):
        poll_trigger(interval=1)(own_interval)
    with pytest.raises(DagError, match="have names"):
        poll_trigger(interval=1)(unnamed)


def not_async(cursor: Any) -> Any: ...


async def no_cursor() -> Any: ...


async def own_interval(cursor: Any, interval: int) -> Any: ...


async def unnamed(cursor: Any, *parts: int) -> Any: ...


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"interval": 1, "cron": "* * * * *"}, "both interval and cron"),
        ({"cron": "every day"}, "cron expression 'every day'"),
        ({"cron": "0 0 31 2 *"}, "never comes|cron expression"),
        ({"timezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"interval": 0}, "interval 0"),
    ],
)
def test_schedules_that_are_not_allowed_are_refused(arguments: dict[str, Any], what: str) -> None:
    with pytest.raises(DagError, match=what):
        PollTrigger(**arguments)


def test_cron_slots_are_those_of_the_time_zone() -> None:
    after = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    assert next_slot("0 3 * * *", "Europe/Berlin", after).astimezone(UTC) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert next_slot("0 3 * * *", "UTC", after) == datetime(2026, 3, 29, 3, 0, tzinfo=UTC)


async def test_a_cron_poll_looks_at_the_start_unless_told_not_to() -> None:
    async with watching(on_the_clock(immediate=True)) as watch:
        assert len(await watch.next()) == 1
    trigger = on_the_clock(immediate=False)
    assert trigger.immediate is False
    async with watching(trigger) as watch:
        waiting = asyncio.create_task(watch.next())
        await asyncio.sleep(0)
        assert watch.looks == 0
        waiting.cancel()


def test_intervals_vary_a_little_so_that_watchers_spread() -> None:
    trigger = PollTrigger(interval=10)
    delays = {trigger.delay() for _ in range(50)}
    assert len(delays) > 10
    assert all(9 <= delay <= 11 for delay in delays)
