"""A consumer that is edited, renamed, broken, or removed and restored loses nothing that was pending, by any policy."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from ground import Scheduler, dag, declare, each, healthy, one_of, record, rows, together

from onceflow.model.dagspec import AssetSchedule, DagSpec, ParseFailure, Policy
from onceflow.store import dags, files
from onceflow.store.database import Database

POLICIES: list[Policy] = ["each", "all", "window", "latest"]
FAR = 1000.0
"""Seconds of quiet: a window that does not end within a test."""


async def break_file(database: Database) -> None:
    known = (await files.known(database))["d.py"]
    failure = ParseFailure("d.py", uuid.uuid4().hex, "syntax", "invalid syntax", "d.py:3")
    assert await files.register_failure(database, known, failure, 0.0)


async def remove(database: Database) -> None:
    assert await files.register_removal(database, (await files.known(database))["d.py"])


async def waiting(database: Database, policy: Policy) -> DagSpec:
    """A consumer for which an event of `a` waits, judged, and one that nobody has judged; its spec."""
    match policy:
        case "each":  # nothing waits under Each but what nobody has looked at
            schedule = each("a", "b")
        case "all":
            schedule = together("a", "b")
        case "window":
            schedule = one_of("a", "b", policy="window", quiet=FAR)
        case _:
            schedule = one_of("a", "b", policy="latest")
    spec = dag("d", schedule, max_active_runs=1)
    await declare(database, "a", "b", "c", path="assets.py")
    await declare(database, "a", "b", "c", spec)
    if policy == "latest":  # its cap is reached
        await record(database, "b")
        await Scheduler(database).settle()
    await record(database, "a")
    if policy != "each":
        await Scheduler(database).settle()
    await record(database, "a")
    return spec


async def open_events(database: Database) -> int:
    return len(await rows(database, "select 1 from delivery where disposition in ('pending', 'held')"))


Change = Callable[[Database, DagSpec], Awaitable[object]]


async def nothing(database: Database, spec: DagSpec) -> None:
    await declare(database, "a", "b", "c", spec)


async def edited(database: Database, spec: DagSpec) -> None:
    await declare(database, "a", "b", "c", replace(spec, description="other"))


async def renamed(database: Database, spec: DagSpec) -> None:
    await declare(database, "a", "b", "c", replace(spec, dag_id="new", previous_id="d"))


async def broken_for_a_while(database: Database, spec: DagSpec) -> None:
    await break_file(database)
    await declare(database, "a", "b", "c", spec)


async def removed_and_restored(database: Database, spec: DagSpec) -> None:
    await remove(database)
    await Scheduler(database).settle()
    await declare(database, "a", "b", "c", spec)


async def paused_and_resumed(database: Database, spec: DagSpec) -> None:
    await dags.pause(database, "d", by={})
    await Scheduler(database).settle()
    await dags.unpause(database, "d", by={})


CHANGES: list[Change] = [nothing, edited, renamed, broken_for_a_while, removed_and_restored, paused_and_resumed]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("policy", POLICIES)
async def test_what_waits_outlasts_a_change(database: Database, policy: Policy, change: Change) -> None:
    """airflow #59337, #60022, #64322: it is consumed as it would have been without the change."""
    spec = await waiting(database, policy)
    assert await open_events(database) == 2
    await change(database, spec)
    await Scheduler(database).settle()
    await healthy(database)
    assert await open_events(database) == (0 if policy == "each" else 2)
    if policy == "all":
        await record(database, "b")
    elif policy == "window":
        await rows(database, "update event set created_at = created_at - interval '1 h'")
        await rows(database, "update dag set judge_at = clock_timestamp() where judge_at is not null")
    elif policy == "latest":
        await rows(database, "update dag set max_active_runs = 2")
    await Scheduler(database).settle()
    assert await open_events(database) == 0
    found = dict(await rows(database, "select disposition::text, count(*) from delivery group by 1"))  # type: ignore[arg-type]
    assert (
        found
        == {
            "each": {"started": 2},
            "all": {"started": 1, "joined": 2},
            "window": {"started": 1, "joined": 1},
            "latest": {"started": 2, "superseded": 1},
        }[policy]
    )
    await healthy(database)


@pytest.mark.parametrize("after", POLICIES)
@pytest.mark.parametrize("before", POLICIES)
async def test_from_one_policy_to_another(database: Database, before: Policy, after: Policy) -> None:
    """What waits by the old policy is judged by the new one, without a further event."""
    spec = await waiting(database, before)
    schedules: dict[Policy, AssetSchedule] = {
        "each": each("a", "b"),
        "all": one_of("a", "b"),
        "window": one_of("a", "b", policy="window", quiet=0.0001),
        "latest": one_of("a", "b", policy="latest"),
    }
    await declare(database, "a", "b", "c", replace(spec, schedule=schedules[after], max_active_runs=9))
    await Scheduler(database).settle()
    assert await open_events(database) == 0
    counts = await rows(
        database,
        "select count(*) from delivery y join event e on e.id = y.event_id join asset a on a.id = e.asset_id "
        "where a.name = 'a' and y.run_id is not null group by y.run_id",
    )
    assert [n for (n,) in counts] == {"each": [1, 1], "latest": [1]}.get(after, [2])
    await healthy(database)


async def test_an_edited_filter_is_applied_to_what_is_pending(database: Database) -> None:
    """To what waited, judged by the old one, too; what was filtered stays so."""
    from ground import change

    schedule = AssetSchedule(["and", [["asset", "a"], ["asset", "b"]]], "all", filters={"a": [">", "n", 1]})
    await declare(database, "a", "b", dag("d", schedule))
    await record(database, *(change("a", extra=f'{{"n": {n}}}') for n in (1, 2, 3)))
    await Scheduler(database).settle()
    await declare(database, "a", "b", dag("d", replace(schedule, filters={"a": [">", "n", 2]})))
    await Scheduler(database).settle()
    await record(database, "b")
    await Scheduler(database).settle()
    found = await rows(database, "select disposition::text, reason from delivery order by event_id")
    assert found == [
        ("filtered", "n > 1 is not met: n is 1"),
        ("filtered", "n > 2 is not met: n is 2"),
        ("joined", None),
        ("started", None),
    ]
    await healthy(database)


async def test_from_assets_to_a_timer_and_back(database: Database) -> None:
    """Meanwhile what was pending is held, with the reason; and a window's end is no longer waited for."""
    spec = await waiting(database, "window")
    await declare(database, "a", "b", "c", dag("d"))
    await Scheduler(database).settle()
    assert await rows(database, "select disposition::text, reason, count(*) from delivery group by 1, 2") == [
        ("held", "unscheduled", 2)
    ]
    assert await rows(database, "select judge_at from dag") == [(None,)]
    await declare(database, "a", "b", "c", replace(spec, schedule=each("a", "b"), max_active_runs=9))
    await Scheduler(database).settle()
    assert await rows(database, "select disposition::text, count(*) from delivery group by 1") == [("started", 2)]
    await healthy(database)
