"""A new consumer begins at its creation; with catchup it gets what is stored first, once, in order, step by step."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from ground import (
    Scheduler,
    change,
    connected,
    dag,
    deadlocks,
    declare,
    each,
    healthy,
    let_lapse,
    one_of,
    pool,
    record,
    rows,
    together,
    together_all,
    until_quiet,
)

from onceflow.model.dagspec import Policy
from onceflow.scheduler.replay_history import ReplayHistory
from onceflow.store import dags, events, files, history
from onceflow.store.database import Database

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


async def intervals(database: Database) -> list[tuple[int, int | None, bool]]:
    return await rows(database, "select from_seq, until_seq, catching_up from subscription order by from_seq")


async def members(database: Database) -> list[list[int]]:
    found = await rows(
        database,
        "select array_agg(e.seq order by e.seq) from run r join delivery y on y.run_id = r.id "
        "join event e on e.id = y.event_id group by r.id, r.ordinal order by r.ordinal",
    )
    return [seqs for (seqs,) in found]


async def many(database: Database, count: int, asset: str = "a") -> None:
    await record(database, *(change(asset) for _ in range(count)))


async def settle(database: Database) -> None:
    scheduler = Scheduler(database)
    replay = ReplayHistory(scheduler.role)
    while await replay.run_once():
        await scheduler.settle()
    await scheduler.settle()


async def remove(database: Database, path: str) -> None:
    assert await files.register_removal(database, (await files.known(database))[path])


@pytest.mark.parametrize("catchup", [False, True])
async def test_catchup_says_whether_a_new_consumer_gets_what_is_stored(database: Database, catchup: bool) -> None:
    """airflow #68749: both ways; without a word a consumer begins at its creation."""
    await declare(database, "a", path="assets.py")
    await many(database, 3)
    await declare(database, "a", dag("d", each("a"), catchup=catchup))
    await many(database, 2)
    await settle(database)
    await many(database, 1)
    await settle(database)
    assert await members(database) == [[n] for n in (range(1, 7) if catchup else range(4, 7))]
    assert await intervals(database) == [(1 if catchup else 4, None, False)]
    await healthy(database)


async def test_history_is_delivered_in_steps_and_verify_agrees_at_each(database: Database) -> None:
    await declare(database, "a", path="assets.py")
    await many(database, 25)
    await declare(database, "a", dag("d", each("a"), catchup=True))
    assert await intervals(database) == [(1, 1, True)]
    given = []
    while (step := await history.catch_up(database, 1, 1, 10)) is not None:
        given.append(step)
        await healthy(database)
        await many(database, 4 if len(given) < 3 else 0) if len(given) < 3 else None
    assert given == [10, 10, 10, 3]
    assert await intervals(database) == [(1, None, False)]
    await many(database, 1)
    await settle(database)
    assert await members(database) == [[n] for n in range(1, 35)]
    await healthy(database)


@pytest.mark.parametrize("policy", ["all", "window", "latest"])
async def test_who_gathers_waits_for_the_end_of_the_history(database: Database, policy: Policy) -> None:
    await declare(database, "a", path="assets.py")
    await many(database, 25)
    await declare(database, "a", dag("d", one_of("a", policy=policy, quiet=0.001), catchup=True))
    scheduler = Scheduler(database)
    while await history.catch_up(database, 1, 1, 10) is not None:
        assert await members(database) == []
        await scheduler.settle()
    assert await members(database) == [[25] if policy == "latest" else list(range(1, 26))]
    await healthy(database)


@pytest.mark.parametrize("policy", ["all", "each"])
async def test_history_ends_for_good_though_the_last_step_had_nothing(database: Database, policy: Policy) -> None:
    """Retention took the last events away while it was catching up: who gathers is judged, nobody for ever."""
    await declare(database, "a", path="assets.py")
    await many(database, 12)
    await declare(database, "a", dag("d", one_of("a", policy=policy), catchup=True))
    await history.catch_up(database, 1, 1, 10)
    await Scheduler(database).settle()
    await rows(database, "delete from change_key where event_id > 10")
    await rows(database, "delete from event where id > 10")
    assert await history.catch_up(database, 1, 1, 10) == 0
    await Scheduler(database).settle()
    assert await members(database) == ([list(range(1, 11))] if policy == "all" else [[n] for n in range(1, 11)])


async def test_not_what_was_recorded_before_the_start_date(database: Database) -> None:
    await declare(database, "a", path="assets.py")
    for n in range(6):
        await events.record(database, [change("a")], {}, now=NOON + timedelta(hours=n))
    since = NOON + timedelta(hours=4)
    await declare(database, "a", dag("d", each("a"), catchup=True, start_date=since))
    await declare(database, "a", dag("e", each("a"), catchup=True, start_date=NOON + timedelta(days=9)))
    await settle(database)
    assert await members(database) == [[5], [6]]
    await healthy(database)


async def test_an_asset_without_history_is_simply_subscribed(database: Database) -> None:
    await declare(database, "a", dag("d", each("a"), catchup=True))
    assert await intervals(database) == [(1, None, False)]
    assert await history.find(database, 10) == []


async def test_a_second_registration_does_not_begin_anew(database: Database) -> None:
    await declare(database, "a", path="assets.py")
    await many(database, 5)
    spec = dag("d", each("a"), catchup=True)
    await declare(database, "a", spec)
    await history.catch_up(database, 1, 1, 2)
    await declare(database, "a", spec)
    assert await intervals(database) == [(1, 3, True)]
    await settle(database)
    await declare(database, "a", spec)
    await settle(database)
    assert await members(database) == [[n] for n in range(1, 6)]
    await healthy(database)


async def test_removed_while_it_catches_up_and_restored(database: Database) -> None:
    """It goes on where it was; what was recorded in between belongs to the history."""
    await declare(database, "a", path="assets.py")
    await many(database, 5)
    spec = dag("d", each("a"), catchup=True)
    await declare(database, "a", spec)
    await history.catch_up(database, 1, 1, 2)
    await remove(database, "d.py")
    assert await intervals(database) == [(1, 3, False)]
    assert await history.find(database, 10) == []
    await many(database, 2)
    await healthy(database)
    await declare(database, "a", spec)
    assert await intervals(database) == [(1, 3, False), (3, 3, True)]
    await settle(database)
    assert await members(database) == [[n] for n in range(1, 8)]
    await healthy(database)


async def test_with_catchup_a_restored_consumer_gets_what_it_missed(database: Database) -> None:
    """Without, it begins again at its return; what was pending before is consumed either way."""
    await declare(database, "a", path="assets.py")
    for dag_id, catchup in (("with", True), ("without", False)):
        spec = dag(dag_id, each("a"), catchup=catchup)
        await declare(database, "a", spec)
        await many(database, 1)  # pending
        await remove(database, f"{dag_id}.py")
        await let_lapse(database)
        await many(database, 2)  # missed
        await declare(database, "a", spec)
        await many(database, 1)
    await settle(database)
    counts = await rows(
        database, "select d.dag_id, count(*) from run r join dag d on d.id = r.dag_id group by 1 order by 1"
    )
    assert counts == [("with", 8), ("without", 2)]
    await healthy(database)


async def test_a_consumer_that_exists_is_not_given_history_by_an_edit(database: Database) -> None:
    await declare(database, "a", path="assets.py")
    await many(database, 3)
    await declare(database, "a", dag("d", each("a")))
    await declare(database, "a", dag("d", each("a"), catchup=True))
    await settle(database)
    assert await members(database) == []
    await healthy(database)


async def test_an_asset_that_is_added_brings_its_history(database: Database) -> None:
    await declare(database, "a", "b", path="assets.py")
    await many(database, 2, "b")
    await declare(database, "a", "b", dag("d", each("a"), catchup=True))
    await declare(database, "a", "b", dag("d", each("a", "b"), catchup=True))
    await settle(database)
    assert len(await members(database)) == 2
    await healthy(database)


async def test_a_paused_consumer_holds_its_history(database: Database) -> None:
    await declare(database, "a", path="assets.py")
    await many(database, 3)
    await declare(database, "a", dag("d", each("a"), catchup=True), paused=True)
    await settle(database)
    assert await members(database) == []
    await dags.unpause(database, "d", "join", by={})
    await settle(database)
    assert await members(database) == [[1, 2, 3]]
    await healthy(database)


async def test_a_join_in_the_middle_of_the_history_takes_what_was_there(database: Database) -> None:
    await declare(database, "a", path="assets.py")
    await many(database, 5)
    await declare(database, "a", dag("d", each("a"), catchup=True), paused=True)
    await history.catch_up(database, 1, 1, 3)
    await Scheduler(database).settle()
    await dags.unpause(database, "d", "join", by={})
    await Scheduler(database).settle()
    assert await members(database) == [[1, 2, 3]]
    await settle(database)
    assert await members(database) == [[1, 2, 3], [4], [5]]
    await healthy(database)


async def test_history_while_events_come_and_schedulers_race(database_url: str) -> None:
    """Every event once, in order, by several that replay and judge; and nobody waits for nobody for ever."""
    async with pool(database_url, size=8) as database, pool(database_url, size=8) as outside:
        await declare(database, "a", "b", path="assets.py")
        for _ in range(3):
            await many(database, 1000)
        both = [dag(d, s, catchup=True, file="f.py") for d, s in (("d", each("a", "b")), ("t", together("a", "b")))]
        over = asyncio.Event()

        async def emitter(n: int) -> None:
            for i in range(30):
                await record(outside, change("ab"[i % 2], f"{n}-{i}"), change("ba"[i % 2], f"{n}-{i}"))

        async def edit() -> None:
            for n in range(3):
                await declare(outside, "a", "b", *both, dag(f"x{n}", each("b"), file="f.py"), path="f.py")

        async def all_of_it() -> int:
            await together_all(edit(), *(emitter(n) for n in range(4)))
            over.set()
            return 0

        schedulers = [Scheduler(database) for _ in range(2)]
        work = [until_quiet(s.judge.run_once, over) for s in schedulers]
        work += [until_quiet(ReplayHistory(s.role).run_once, over) for s in schedulers]
        await together_all(all_of_it(), *work)
        await settle(database)
        await healthy(database)
        in_d = await rows(
            database,
            "select e.seq from run r join dag d on d.id = r.dag_id join event e on e.id = r.start_event "
            "join asset a on a.id = e.asset_id where d.dag_id = 'd' and a.name = 'a' order by r.ordinal",
        )
        assert [seq for (seq,) in in_d] == list(range(1, 3121))
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0
