"""Runs: one per slot, never two of a continuous DAG, never more at once than the cap, started in their order."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from ground import (
    Gate,
    Scheduler,
    claim_tasks,
    connected,
    dag,
    deadlocks,
    declare,
    each,
    finish,
    healthy,
    pool,
    record,
    report,
    rows,
    together_all,
    until_quiet,
    without_result,
)

from onceflow.model.dagspec import ContinuousSchedule, CronSchedule, IntervalSchedule, OnceSchedule, TaskSpec
from onceflow.model.errors import ConflictError, OnceflowError
from onceflow.model.states import TaskState, TriggerRule
from onceflow.scheduler.create_timed_runs import CreateContinuousRuns, CreateTimedRuns
from onceflow.store import dags, runs, starts, tasks, timed
from onceflow.store.database import Database
from onceflow.store.versions import Versions
from support import eventually

WORKER = uuid.UUID(int=1)
RUNNING = "select d.dag_id, count(*) from run r join dag d on d.id = r.dag_id where r.state = 'running' group by 1"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


async def manual(database: Database, dag_id: str, count: int = 1) -> None:
    for _ in range(count):
        assert await runs.create_manual(database, dag_id, by={}) is not None


async def work_off(database: Database, *others: Awaitable[Any], starters: int = 4, most: dict[str, int]) -> None:
    """Start, work and advance with several schedulers until no run is left; the caps are looked at all the time."""
    over = asyncio.Event()

    async def worker(n: int) -> None:
        me = uuid.UUID(int=n)
        while not over.is_set():
            for task in (await claim_tasks(database, me, 1)).values():
                await finish(database, me, report(task))

    async def observer() -> None:
        while not over.is_set():
            running = await rows(database, RUNNING)
            assert all(n <= most[d] for d, n in running), running
            if not await rows(database, "select 1 from run where state in ('queued', 'running') limit 1"):
                over.set()

    async def scheduler() -> None:
        services = Scheduler(database)
        await until_quiet(services.start.run_once, over, 1)

    async def advancer() -> None:
        services = Scheduler(database)
        await until_quiet(services.advance.run_once, over, 1)

    work = [scheduler() for _ in range(starters)] + [advancer(), advancer(), observer(), worker(1), worker(2)]
    await together_all(*others, *work)


async def test_the_cap_is_never_exceeded(database_url: str) -> None:
    """Lock, then count: four schedulers start what two workers finish, and nobody ever sees more running."""
    async with pool(database_url, size=10) as database:
        await declare(database, dag("one", max_active_runs=1), dag("three", max_active_runs=3), path="f.py")
        await manual(database, "one", 25)
        await manual(database, "three", 40)
        await work_off(database, most={"one": 1, "three": 3})
        counted = await healthy(database)
        assert counted["runs"] == 65
        out_of_order = """
            select 1 from run r
            join run s on s.dag_id = r.dag_id and s.ordinal > r.ordinal and s.started_at < r.started_at
        """
        assert await rows(database, out_of_order) == []
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0


async def test_a_starter_that_comes_second_sees_what_the_first_has_started(database_url: str) -> None:
    """It passes the locked DAG by, and counts in a later statement than it locks."""
    async with pool(database_url, "gated") as first, pool(database_url) as second:
        await declare(second, dag("d", max_active_runs=2))
        await manual(second, "d", 5)
        async with Gate.at(database_url, "task", "insert") as gate, asyncio.TaskGroup() as group:
            group.create_task(without_result(Scheduler(first).start.run_once()))
            await gate.reached()
            other = Scheduler(second)
            assert not await other.start.run_once()
            await gate.open()
        assert not await other.start.run_once()
        assert await rows(second, "select ordinal from run where state = 'running' order by 1") == [(1,), (2,)]


async def test_a_raised_cap_takes_effect_and_a_lowered_one_ends_nothing(database: Database) -> None:
    scheduler = Scheduler(database)
    await declare(database, dag("d", max_active_runs=1))
    await manual(database, "d", 5)
    await scheduler.settle()
    await declare(database, dag("d", max_active_runs=3))
    await scheduler.settle()
    assert await rows(database, "select count(*) from run where state = 'running'") == [(3,)]
    await declare(database, dag("d", max_active_runs=2))
    await scheduler.settle()
    for task in (await claim_tasks(database, WORKER, 1)).values():
        await finish(database, WORKER, report(task))
    await scheduler.settle()
    assert await rows(database, "select count(*) from run where state = 'running'") == [(2,)]
    await healthy(database)


async def test_a_paused_dag_starts_nothing_and_its_runs_wait(database: Database) -> None:
    scheduler = Scheduler(database)
    await declare(database, dag("d"))
    await dags.pause(database, "d", by={})
    created = await runs.create_manual(database, "d", by={})
    assert created is not None and created.paused
    await scheduler.settle()
    assert await rows(database, "select state::text from run") == [("queued",)]
    await dags.unpause(database, "d", by={})
    await scheduler.settle()
    assert await rows(database, "select state::text from run") == [("running",)]


async def test_a_start_waits_for_no_pause(database_url: str) -> None:
    """The pause waits for who has the DAG, and what comes after it does not start."""
    async with pool(database_url, "gated") as starting, pool(database_url, "pausing") as pausing:
        await declare(pausing, dag("d", max_active_runs=2))
        await manual(pausing, "d", 2)
        async with Gate.at(database_url, "task", "insert") as gate, asyncio.TaskGroup() as group:
            group.create_task(without_result(Scheduler(starting).start.run_once()))
            await gate.reached()
            group.create_task(without_result(dags.pause(pausing, "d", by={})))
            await gate.waits("pausing")
            await gate.open()
        await manual(pausing, "d")
        await Scheduler(pausing).settle()
        assert await rows(pausing, "select state::text from run order by ordinal") == [
            *[("running",)] * 2,
            ("queued",),
        ]


async def test_a_run_is_pinned_to_the_version_it_starts_with(database: Database) -> None:
    scheduler = Scheduler(database)
    await declare(database, dag("d", None, "old", max_active_runs=1))
    await manual(database, "d", 2)
    await scheduler.settle()
    await declare(database, dag("d", None, "new", max_active_runs=1))
    for task in (await claim_tasks(database, WORKER)).values():
        await finish(database, WORKER, report(task))
    await scheduler.settle()
    found = await rows(
        database,
        "select v.number, t.task_id, r.source_hash = d.source_hash from run r join dag d on d.id = r.dag_id "
        "join dag_version v on v.id = r.version_id join task t on t.run_id = r.id order by r.ordinal",
    )
    assert found == [(1, "old", False), (2, "new", True)]
    await healthy(database)


async def test_a_run_is_started_once(database: Database) -> None:
    await declare(database, dag("d"))
    await manual(database, "d")
    [(run, version)] = await rows(database, "select r.id, d.version_id from run r join dag d on d.id = r.dag_id")
    pinned = (await Versions().read(database, [version]))[version]
    states = {"work": TaskState.QUEUED}
    async with database.transaction() as tx:
        await starts.start(tx, [run], pinned, states)
    with pytest.raises(OnceflowError, match="0 of 1 runs were queued"):
        async with database.transaction() as tx:
            await starts.start(tx, [run], pinned, states)
    assert await rows(database, "select count(*) from task") == [(1,)]


async def test_a_run_without_tasks_has_succeeded(database: Database) -> None:
    await declare(database, dag("d", None, TaskSpec("never", trigger_rule=TriggerRule.ALL_SUCCESS)))
    await rows(database, "update dag_version set spec = jsonb_set(spec::jsonb, '{tasks}', '[]')::json")
    await manual(database, "d")
    await Scheduler(database).settle()
    assert await rows(database, "select state::text from run") == [("success",)]
    await healthy(database)


async def test_numbers_of_runs_are_given_under_the_dag_s_lock(database_url: str) -> None:
    """Manual and asset runs at once: ordinals without gap or repeat."""
    async with pool(database_url, size=8) as database:
        await declare(database, "a", dag("d", each("a")))
        over = asyncio.Event()

        async def makers() -> int:
            by_hand = (manual(database, "d", 15) for _ in range(4))
            await together_all(*by_hand, *(without_result(record(database, "a")) for _ in range(20)))
            over.set()
            return 0

        await together_all(makers(), *(until_quiet(Scheduler(database).judge.run_once, over) for _ in range(2)))
        numbers = "select min(ordinal), max(ordinal), count(distinct ordinal), count(distinct run_id) from run"
        assert await rows(database, numbers) == [(1, 80, 80, 80)]
        await healthy(database)


async def test_a_logical_date_is_taken_once(database: Database) -> None:
    await declare(database, dag("d"))
    await runs.create_manual(database, "d", logical_date=NOON, by={})
    with pytest.raises(ConflictError):
        await runs.create_manual(database, "d", logical_date=NOON, by={})
    assert await rows(database, "select ordinal from run") == [(1,)]
    assert await runs.create_manual(database, "nowhere", by={}) is None


async def timed_pass(database: Database, now: datetime) -> int:
    """What the service does, at a given time, for DAGs that run every hour."""
    found = await timed.find_due(database, 100, now)
    async with database.transaction() as tx:
        claimed = await timed.claim_due(tx, found, now)
        slots = [(d.dag, d.next_slot_at) for d in claimed]
        following = [(d.dag, d.next_slot_at + timedelta(hours=1)) for d in claimed]
        return await timed.create(tx, WORKER, slots, following, now)


async def test_a_slot_has_one_run(database: Database) -> None:
    """Four schedulers at the same moment; then the slot is asked for again, as after a lost answer."""
    hourly = IntervalSchedule(3600.0)
    await declare(database, *(dag(f"d{i}", hourly, start_date=NOON, file="f.py") for i in range(5)))
    created = await together_all(*(timed_pass(database, NOON) for _ in range(4)))
    assert sum(created) == 5
    assert await timed_pass(database, NOON) == 0
    await rows(database, "update dag set next_slot_at = $1", NOON)
    assert await timed_pass(database, NOON) == 0
    assert await timed_pass(database, NOON + timedelta(hours=1)) == 5
    slots = await rows(database, "select logical_date, count(*) from run group by 1 order by 1")
    assert slots == [(NOON, 5), (NOON + timedelta(hours=1), 5)]
    assert await rows(database, "select distinct created_at - logical_date from run") == [(timedelta(0),)]
    await healthy(database)


async def test_a_slot_stays_one_whatever_else_is_said_of_its_dag(database: Database) -> None:
    """riverqueue/river#283: no option of the author's, and no run by hand, makes a second run of a slot."""
    hourly = IntervalSchedule(3600.0)
    options: list[dict[str, Any]] = [
        {"max_active_runs": 1},
        {"catchup": True},
        {"params": {"n": 1}},
        {"end_date": NOON + timedelta(days=1)},
        {"previous_id": "older"},
    ]
    for option in options:
        await declare(database, dag("d", hourly, start_date=NOON, **option))
        await rows(database, "update dag set next_slot_at = $1", NOON)
        await timed_pass(database, NOON)
    assert await rows(database, "select logical_date, count(*) from run group by 1") == [(NOON, 1)]
    later = NOON + timedelta(hours=1)
    await runs.create_manual(database, "d", logical_date=later, by={})
    assert await timed_pass(database, later) == 0
    assert await rows(database, "select logical_date, count(*) from run group by 1 order by 1") == [
        (NOON, 1),
        (later, 1),
    ]
    await healthy(database)


async def test_slots_are_made_by_any_number_of_schedulers(database_url: str) -> None:
    """The real services, catching up: every slot of every DAG once, whoever makes it."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    past = {"start_date": start, "end_date": start + timedelta(hours=30), "catchup": True, "file": "f.py"}
    async with pool(database_url, size=8) as database:
        await declare(
            database,
            *(dag(f"h{i}", CronSchedule("0 * * * *"), **past) for i in range(4)),
            *(dag("once", OnceSchedule(), file="f.py"), dag("paused", CronSchedule("0 * * * *"), **past)),
        )
        await dags.pause(database, "paused", by={})
        done = asyncio.Event()
        done.set()
        services = [CreateTimedRuns(Scheduler(database).role, Versions()) for _ in range(4)]
        await together_all(*(until_quiet(s.run_once, done, 2) for s in services))
        found = await rows(
            database,
            "select d.dag_id, count(*), count(distinct r.logical_date), max(r.ordinal) from run r "
            "join dag d on d.id = r.dag_id group by 1 order by 1",
        )
        assert found == [*((f"h{i}", 31, 31, 31) for i in range(4)), ("once", 1, 1, 1)]
        assert await rows(database, "select count(*) from dag where next_slot_at is not null and not paused") == [(0,)]
        await healthy(database)


async def test_a_long_past_becomes_runs_as_the_queue_drains(database_url: str) -> None:
    """Minutes since 1900 are 66 million: of a catch-up only so many wait that the queue does not run dry."""
    past = datetime(1900, 1, 1, tzinfo=UTC)
    minutely = dag("long", CronSchedule("* * * * *"), start_date=past, catchup=True, max_active_runs=150)
    queued = "select count(*) filter (where state = 'queued'), count(*) from run"
    async with pool(database_url, size=8) as database:
        await declare(database, minutely)
        scheduler, done = Scheduler(database), asyncio.Event()
        done.set()
        services = [CreateTimedRuns(scheduler.role, Versions()) for _ in range(4)]
        for turn in range(3):
            await together_all(*(until_quiet(s.run_once, done, 2) for s in services))
            [(waiting, made)] = await rows(database, queued)
            assert timed.FULL <= waiting < 2 * timed.FULL
            assert not await due_at_a_glance(database)
            assert await timed.seconds_to_next(database) is None  # nobody looks again before the queue is shorter
            for _ in range(2):  # what runs ends, what waited starts
                work = await tasks.claim(database, WORKER, 200, 60.0)
                assert len(work) == 150 or turn
                await finish(database, WORKER, *(report(t) for t in work))
                await scheduler.settle()
            assert await due_at_a_glance(database)
        slots = await rows(database, "select max(logical_date) - min(logical_date), count(*) from run")
        assert slots == [(timedelta(minutes=made - 1), made)]
        await healthy(database)


async def test_a_full_queue_keeps_no_other_dag_waiting(database: Database) -> None:
    hourly = IntervalSchedule(3600.0)
    await declare(database, dag("full", hourly, start_date=NOON, file="f.py"), dag("free", hourly, start_date=NOON))
    await rows(database, "update dag set next_slot_at = '2026-01-01'")
    known = dict(await rows(database, "select dag_id, id from dag"))
    await manual(database, "full", timed.FULL - 1)
    assert sorted(await timed.find_due(database, 10)) == [1, 2]
    await manual(database, "full")
    assert await timed.find_due(database, 10) == [known["free"]]
    assert await due_at_a_glance(database)
    async with database.transaction() as tx:
        assert [d.dag for d in await timed.claim_due(tx, [1, 2])] == [known["free"]]
    seconds = await timed.seconds_to_next(database)
    assert seconds is not None and seconds < 0


async def due_at_a_glance(database: Database) -> bool:
    found = await database.fetchrow("server/glance", False, timed.FULL)
    assert found is not None
    return found["dag"]


async def test_a_continuous_dag_has_one_run_at_a_time(database_url: str) -> None:
    async with pool(database_url, size=10) as database:
        await declare(database, dag("c", ContinuousSchedule()), dag("e", ContinuousSchedule()), path="f.py")
        await rows(database, "update dag set next_slot_at = null where dag_id = 'e'")
        over = asyncio.Event()

        async def end_them() -> None:
            services = Scheduler(database)
            while not over.is_set():
                await services.settle()
                for task in await tasks.claim(database, WORKER, 10, 60.0):
                    await finish(database, WORKER, report(task))
                [(count,)] = await rows(database, "select count(*) from run where state = 'success'")
                if count >= 30:
                    over.set()

        services = [CreateContinuousRuns(Scheduler(database).role) for _ in range(4)]
        await together_all(end_them(), *(without_result(until_quiet(s.run_once, over, 1)) for s in services))
        under_way = "select dag_id from run where state in ('queued', 'running') group by 1 having count(*) > 1"
        assert await rows(database, under_way) == []
        overlapping = """
            select 1 from run r join run s on s.dag_id = r.dag_id and s.ordinal = r.ordinal + 1
            where s.created_at < r.finished_at
        """
        assert await rows(database, overlapping) == []
        await healthy(database)


async def test_a_continuous_dag_waits_for_its_start_and_for_a_run_by_hand(database: Database) -> None:
    await declare(database, dag("c", ContinuousSchedule(), start_date=NOON))
    assert await timed.find_continuous(database, 10, NOON - timedelta(seconds=1)) == []
    assert await timed.find_continuous(database, 10, NOON) == [1]
    await manual(database, "c")
    assert await timed.find_continuous(database, 10, NOON) == []
    assert await timed.create_continuous(database, WORKER, [1], NOON) == []
    await rows(database, "delete from run")
    assert len(await timed.create_continuous(database, WORKER, [1], NOON)) == 1
    assert await rows(database, "select logical_date from run") == [(NOON,)]
    assert await timed.create_continuous(database, WORKER, [1], NOON) == []


async def test_a_starter_frozen_in_its_transaction_is_cut_off(database_url: str) -> None:
    """kestra #11434: a schedule is not blocked by who locked it and went away."""
    async with connected(database_url, "frozen", lease_seconds=1.0) as frozen, pool(database_url) as database:
        await declare(database, dag("d"))
        await manual(database, "d")
        await frozen.execute("begin isolation level read committed")
        assert len(await frozen.fetch("select * from claim_startable_runs('{1}', 10)")) == 1
        start = Scheduler(database).start
        assert not await start.run_once()
        await eventually(start.run_once)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
            await frozen.execute("commit")
        await healthy(database)
