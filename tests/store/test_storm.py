"""The storm breaker: a consumer whose events start too many runs holds them, and a person says how they go on."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from ground import (
    Scheduler,
    change,
    dag,
    declare,
    each,
    healthy,
    members,
    one_of,
    pool,
    record,
    rows,
    together_all,
    until_quiet,
)

from onceflow.config import Settings
from onceflow.model.dagspec import AssetSpec, WatcherSpec
from onceflow.model.errors import InputError, NotFoundError
from onceflow.queries.dags import show_dag
from onceflow.queries.rows import collect
from onceflow.queries.watchers import stream_watchers
from onceflow.queries.why import why_event
from onceflow.runtime.role import Role
from onceflow.runtime.wakeups import Wakeups
from onceflow.scheduler.create_asset_runs import CreateAssetRuns
from onceflow.scheduler.release_slowly import ReleaseSlowly
from onceflow.store import dags, interventions, runs, storms, watchers
from onceflow.store.database import Database
from onceflow.store.events import Ownership, record_if_owner
from onceflow.store.interventions import Scope
from onceflow.store.storms import How
from onceflow.store.versions import Versions

OWNER, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
ANNA: dict[str, Any] = {"kind": "cli", "user": "anna", "host": "here"}


async def held(database: Database, dag_id: str = "d") -> list[int]:
    found = await rows(
        database,
        "select y.event_id from delivery y join dag d on d.id = y.dag_id "
        "where d.dag_id = $1 and y.disposition = 'held' and y.reason = 'storm' order by 1",
        dag_id,
    )
    return [event for (event,) in found]


async def events(database: Database, count: int, asset: str = "a") -> list[int]:
    return [r.event_id for r in await record(database, *[asset] * count)]


@pytest.fixture
async def stormy(database: Database) -> Scheduler:
    """A consumer that may make three runs a minute, beside one without a limit; a burst of five events was judged."""
    await declare(database, "a", dag("d", each("a"), max_runs_per_minute=3), dag("calm", each("a"), file="d.py"))
    await events(database, 5)
    scheduler = Scheduler(database)
    await scheduler.settle()
    return scheduler


async def test_a_burst_is_held_and_nothing_is_lost(database: Database, stormy: Scheduler) -> None:
    assert await members(database) == [[1], [2], [3]] and await held(database) == [4, 5]
    [later] = await events(database, 1)
    await stormy.settle()
    assert await held(database) == [4, 5, later]
    assert len(await members(database, "calm")) == 6, "other DAGs go on"
    shown = await show_dag(database, "d")
    assert shown["storm_at"] is not None and shown["held"] == 3 and shown["storm"] == {"event": 4, "runs": 3}
    told = {d["dag_id"]: d["because"] for d in (await why_event(database, 4))["deliveries"]}
    assert "more runs in a minute than max_runs_per_minute allows; `onceflow dags release d`" in told["d"]
    assert told["calm"].startswith("completed the condition")
    await healthy(database)


async def test_released_each(database: Database, stormy: Scheduler) -> None:
    """All of them at once, although that is more than a minute may have: what a person released is no storm."""
    await events(database, 5)
    await stormy.settle()
    done = await storms.release(database, "d", "each", by=ANNA, reason="a migration")
    assert done == storms.Ended("d", True, False, True, 7)
    await events(database, 1)
    await stormy.settle()
    assert await members(database) == [[n] for n in range(1, 12)]
    shown = await show_dag(database, "d")
    assert (shown["storm_at"], shown["held"], shown["open_deliveries"]) == (None, 0, 0)
    told = {d["dag_id"]: d["because"] for d in (await why_event(database, 4))["deliveries"]}
    assert "anna on here by command released it at" in told["d"] and "because: a migration" in told["d"]
    await events(database, 5)
    await stormy.settle()
    assert len(await members(database)) == 13 and len(await held(database)) == 3, "the next storm"
    await healthy(database)


async def test_released_merged(database: Database, stormy: Scheduler) -> None:
    await storms.release(database, "d", "join", by=ANNA)
    await stormy.settle()
    assert await members(database) == [[1], [2], [3], [4, 5]]
    await healthy(database)


async def test_discarded(database: Database, stormy: Scheduler) -> None:
    done = await storms.release(database, "d", "discard", by=ANNA, reason="test data")
    assert done is not None and done.deliveries == 2
    [later] = await events(database, 1)
    await stormy.settle()
    assert await members(database) == [[1], [2], [3], [later]]
    told = {d["dag_id"]: d["because"] for d in (await why_event(database, 4))["deliveries"]}
    assert "discarded by hand" in told["d"] and "test data" in told["d"]
    await healthy(database)


async def test_released_slowly(database: Database, stormy: Scheduler) -> None:
    """One after the other at the rate that was given; what comes meanwhile follows in its turn."""
    [(now,)] = await rows(database, "select clock_timestamp()")
    await storms.release(database, "d", "slowly", rate=30, by=ANNA, now=now)
    [later] = await events(database, 1)
    await stormy.settle()
    assert await held(database) == [4, 5, later]
    [(d,)] = await rows(database, "select id from dag where dag_id = 'd'")

    async def at(seconds: float) -> float | None:
        waits = await storms.release_slowly(database, d, now + timedelta(seconds=seconds))
        await stormy.settle()
        return waits

    assert await at(0) == 2.0 and await members(database) == [[1], [2], [3], [4]]
    assert await at(1.9) is None
    assert await at(2) == 2.0 and await at(4) == 2.0
    assert await members(database) == [[1], [2], [3], [4], [5], [later]]
    assert (await show_dag(database, "d"))["release_rate"] == 30
    await at(6)
    shown = await show_dag(database, "d")
    assert (shown["storm_at"], shown["release_rate"]) == (None, None)
    await healthy(database)


async def test_the_service_releases_slowly(database: Database, stormy: Scheduler) -> None:
    await storms.release(database, "d", "slowly", rate=6000, by=ANNA)
    service = ReleaseSlowly(stormy.role)
    assert await service.run_once() and not await service.run_once()
    await stormy.settle()
    assert await members(database) == [[n] for n in range(1, 6)]
    assert (await show_dag(database, "d"))["storm_at"] is None, "fewer were left than one step may release"


async def test_the_slowest_rate_can_be_kept(database: Database, stormy: Scheduler) -> None:
    await storms.release(database, "d", "slowly", rate=storms.SLOWEST, by=ANNA)
    assert await ReleaseSlowly(stormy.role).run_once()
    await stormy.settle()
    assert await held(database) == [5], "one was released, the next will be"


@pytest.mark.parametrize("how", ["each", "join", "discard", "slowly"])
async def test_there_is_nothing_to_release(database: Database, how: How) -> None:
    await declare(database, "a", dag("d", each("a")))
    done = await storms.release(database, "d", how, rate=1 if how == "slowly" else None, by=ANNA)
    assert done == storms.Ended("d", True, False, False, 0)
    await events(database, 2)
    await Scheduler(database).settle()
    assert await members(database) == [[1], [2]]
    assert await storms.release(database, "no", how, rate=1 if how == "slowly" else None, by=ANNA) is None
    for rate in (0, -1, 1e-300, 1e9, None if how == "slowly" else 5):
        with pytest.raises(InputError, match="the rate is"):
            await storms.release(database, "d", how, rate=rate, by=ANNA)


async def test_single_events_are_released_from_a_storm(database: Database, stormy: Scheduler) -> None:
    await interventions.release(database, Scope("d", [5]), by=ANNA)
    await stormy.settle()
    assert await members(database) == [[1], [2], [3], [5]] and await held(database) == [4]
    await healthy(database)


async def test_a_storm_outlasts_pause_edit_and_removal(database: Database, stormy: Scheduler) -> None:
    await dags.pause(database, "d", by=ANNA)
    await events(database, 1)
    await stormy.settle()
    await dags.unpause(database, "d", by=ANNA)
    await stormy.settle()
    assert await held(database) == [4, 5, 6]
    spec = dag("d", each("a"), "other", max_runs_per_minute=3)
    await declare(database, "a", spec, dag("calm", each("a"), file="d.py"))
    await declare(database, "a", dag("calm", each("a"), file="d.py"))
    await declare(database, "a", spec, dag("calm", each("a"), file="d.py"))
    await stormy.settle()
    assert await held(database) == [4, 5, 6] and len(await members(database)) == 3
    await storms.release(database, "d", "each", by=ANNA)
    await stormy.settle()
    assert len(await members(database)) == 6
    await healthy(database)


async def test_a_minute_later_there_is_room(database: Database) -> None:
    await declare(database, "a", dag("d", each("a"), max_runs_per_minute=3))
    scheduler = Scheduler(database)
    await events(database, 3)
    await scheduler.settle()
    async with database._acquire() as raw:
        await raw.execute("update dag set minute_at = minute_at - interval '61 s'")
    await events(database, 3)
    await scheduler.settle()
    assert len(await members(database)) == 6 and await held(database) == []


async def test_a_gathering_consumer_counts_its_runs(database: Database) -> None:
    await declare(database, "a", dag("d", one_of("a", policy="all"), max_runs_per_minute=2))
    scheduler = Scheduler(database)
    for _ in range(3):
        await events(database, 2)
        await scheduler.settle()
    assert await members(database) == [[1, 2], [3, 4]] and await held(database) == [5, 6]
    await events(database, 1)
    await scheduler.settle()
    assert await held(database) == [5, 6, 7]
    await storms.release(database, "d", "each", by=ANNA)
    await scheduler.settle()
    assert await members(database) == [[1, 2], [3, 4], [5, 6, 7]]
    await healthy(database)


async def test_runs_of_limited_size_are_counted(database: Database) -> None:
    schedule = one_of("a", policy="window", max_wait=3600.0, max_size=2)
    await declare(database, "a", dag("d", schedule, max_runs_per_minute=2))
    scheduler = Scheduler(database)
    await events(database, 9)
    await scheduler.settle()
    assert await members(database) == [[1, 2], [3, 4]] and await held(database) == [5, 6, 7, 8, 9]
    await storms.release(database, "d", "join", by=ANNA)
    await scheduler.settle()
    assert await members(database) == [[1, 2], [3, 4], [5, 6, 7, 8, 9]]
    await healthy(database)


@pytest.mark.parametrize(("own", "made"), [(None, 2), (0, 6), (4, 4)])
async def test_the_setting_is_for_those_who_say_nothing(database: Database, own: int | None, made: int) -> None:
    await declare(database, "a", dag("d", each("a"), max_runs_per_minute=own))
    settings = replace(Settings(database_url=database.url), max_runs_per_minute=2)
    role = Role("scheduler", uuid.uuid4(), settings, database, Wakeups(), steady_since=float("-inf"))
    judge = CreateAssetRuns(role, Versions())
    await events(database, 6)
    while await judge.run_once():
        pass
    assert len(await members(database)) == made and len(await held(database)) == 6 - made


async def test_what_people_start_is_no_storm(database: Database) -> None:
    await declare(database, "a", dag("d", each("a"), max_runs_per_minute=1))
    for _ in range(3):
        await runs.create_manual(database, "d", by=ANNA)
    await events(database, 1)
    await Scheduler(database).settle()
    assert await members(database) == [[1]] and await held(database) == []


async def test_several_schedulers_keep_the_limit_together(database_url: str) -> None:
    async with pool(database_url, size=8) as database:
        await declare(database, "a", dag("d", each("a"), max_runs_per_minute=20))
        done = asyncio.Event()

        async def emitter() -> None:
            for n in range(40):
                await record(database, change("a", f"k{n}"))
            done.set()

        judges = [Scheduler(database).judge for _ in range(3)]
        await together_all(emitter(), *(until_quiet(j.run_once, done) for j in judges))
        assert len(await members(database)) == 20 and len(await held(database)) == 20
        await healthy(database)


# Watchers -----------------------------------------------------------------------------------------------------------


STORM = {"events": 30, "limit": 30}


def watched(mode: str = "single", **more: Any) -> AssetSpec:
    spec = WatcherSpec("w", "t.Poll", {}, mode, where="a.py:2", **more)  # type: ignore[arg-type]
    return AssetSpec("a", "s3://a", watchers=(spec,), where="a.py:1")


async def ready(database: Database, owner: uuid.UUID) -> None:
    async with database._acquire() as raw:
        await raw.execute(
            "insert into process (id, kind, host, pid, parent_pid, version, lease_until, ready_until) "
            "values ($1, 'triggerer', '', 1, 1, '', now() + interval '1 h', now() + interval '1 h')",
            owner,
        )


async def state(database: Database) -> str:
    [row] = await collect(stream_watchers(database, "a"))
    return row["state"]


async def test_a_watcher_in_a_storm_is_not_run_until_it_is_released(database: Database) -> None:
    await declare(database, watched(max_events_per_minute=30))
    await ready(database, OWNER)
    [mine] = await watchers.claim(database, OWNER, 5, take_over=True)
    assert mine.max_events_per_minute == 30
    ownership = Ownership(mine.id, OWNER, mine.term, mine.routes.number)
    await record_if_owner(database, ownership, [change("a", "k")], {}, cursor='{"at": 1}')
    await watchers.trip(database, OWNER, mine.id, mine.term - 1, STORM)
    assert await state(database) != "storm", "an owner of the past trips nothing"
    await watchers.trip(database, OWNER, mine.id, mine.term, STORM)
    assert await state(database) == "storm"
    assert await watchers.claim(database, OWNER, 5, take_over=True) == []
    await declare(database, watched(max_events_per_minute=30))
    assert await state(database) == "storm", "an unchanged file changes nothing"
    assert await watchers.end_storm(database, "s3://a", "w", by=ANNA, reason="mended") == ["w"]
    assert await watchers.end_storm(database, "a", None, by=ANNA) == []
    [again] = await watchers.claim(database, OWNER, 5, take_over=True)
    assert again.cursor == '{"at": 1}'
    assert await rows(database, "select kind, reason from intervention") == [("release", "mended")]
    with pytest.raises(NotFoundError, match="asset 'a' has no watcher 'other'"):
        await watchers.end_storm(database, "a", "other", by=ANNA)
    await healthy(database)


async def test_a_storm_of_a_watcher_of_mode_all_stops_it_everywhere(database: Database) -> None:
    await declare(database, watched("all"))
    for owner in (OWNER, OTHER):
        await ready(database, owner)
        [mine] = await watchers.join(database, owner, 5)
    await watchers.trip(database, OTHER, mine.id, mine.term, STORM)
    assert await state(database) == "storm"
    assert [o.generation for o in (await watchers.owned(database, OWNER, 60)).values()] == [0], "it is told to stop"
    assert await watchers.join(database, OTHER, 5) == []
    await watchers.end_storm(database, "a", None, by=ANNA)
    assert len(await watchers.join(database, OTHER, 5)) == 1


@pytest.mark.parametrize("edit", [{"code": "new"}, {"keep_cursor": True}])
async def test_edited_code_ends_a_watcher_s_storm(database: Database, edit: dict[str, Any]) -> None:
    await declare(database, watched())
    await ready(database, OWNER)
    [mine] = await watchers.claim(database, OWNER, 5, take_over=True)
    await watchers.trip(database, OWNER, mine.id, mine.term, STORM)
    await declare(database, watched(**edit))
    assert (await state(database) == "storm") == ("code" not in edit)
