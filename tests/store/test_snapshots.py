"""A statement's snapshot is older than the lock it waited for: what a lock protects is read by a later statement.

Each test stops one scheduler inside its locking statement, after the snapshot and before the lock, lets another do the
same work and commit, and lets the first go on: it has to see what the other did.
"""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime
from typing import Any

from ground import (
    Gate,
    Scheduler,
    claim_tasks,
    dag,
    declare,
    each,
    finish,
    healthy,
    pool,
    record,
    report,
    rows,
    together,
)

from onceflow.model.dagspec import ContinuousSchedule, CronSchedule
from onceflow.scheduler.create_timed_runs import CreateContinuousRuns, CreateTimedRuns
from onceflow.store import dags, runs, tasks
from onceflow.store.database import Database
from onceflow.store.versions import Versions

WORKER = uuid.UUID(int=1)


async def test_a_judge_sees_what_the_one_before_has_consumed(database_url: str) -> None:
    async with pool(database_url, "gated") as slow, pool(database_url) as quick:
        await declare(quick, "a", "b", dag("d", together("a", "b")), dag("e", each("a")))
        await record(quick, "a", "b")
        async with Gate.in_reading(database_url, "dag") as gate, asyncio.TaskGroup() as group:
            group.create_task(Scheduler(slow).judge.run_once())
            await gate.reached()
            assert await Scheduler(quick).judge.run_once()
            await record(quick, "b")
            await gate.open()
        await Scheduler(quick).settle()
        counted = await healthy(quick)
        assert counted["by_disposition"] == {"started": 2, "joined": 1, "pending": 1}


async def test_a_judge_sees_what_was_delivered_since_its_statement_began(database_url: str) -> None:
    """The events that complete the condition are committed while it stands: it takes all of them."""
    async with pool(database_url, "gated") as slow, pool(database_url) as quick:
        await declare(quick, "a", "b", dag("d", together("a", "b")))
        await record(quick, "a")
        async with Gate.in_reading(database_url, "dag") as gate, asyncio.TaskGroup() as group:
            late = group.create_task(Scheduler(slow).judge.run_once())
            await gate.reached()
            await record(quick, "b", "a")
            await gate.open()
        assert late.result()
        assert (await healthy(quick))["by_disposition"] == {"started": 1, "joined": 2}


async def test_a_judge_sees_a_pause(database_url: str) -> None:
    async with pool(database_url, "gated") as slow, pool(database_url) as quick:
        await declare(quick, "a", dag("d", each("a")))
        await record(quick, "a")
        async with Gate.in_reading(database_url, "dag") as gate, asyncio.TaskGroup() as group:
            group.create_task(Scheduler(slow).judge.run_once())
            await gate.reached()
            await dags.pause(quick, "d", by={})
            await gate.open()
        assert (await healthy(quick))["by_disposition"] == {"held": 1}


async def test_a_starter_counts_what_the_one_before_has_started(database_url: str) -> None:
    async with pool(database_url, "gated") as slow, pool(database_url) as quick:
        await declare(quick, dag("d", max_active_runs=2))
        for _ in range(5):
            await runs.create_manual(quick, "d", by={})
        async with Gate.in_reading(database_url, "dag") as gate, asyncio.TaskGroup() as group:
            # find_startable reads the table too, so the claim itself is what stands here
            late = group.create_task(claim_startable(slow))
            await gate.reached()
            assert await Scheduler(quick).start.run_once()
            await gate.open()
        assert late.result() == []
        assert await rows(quick, "select ordinal from run where state = 'running' order by 1") == [(1,), (2,)]


async def claim_startable(database: Database) -> list[Any]:
    async with database.transaction() as tx:
        return await tx.fetch("runs/claim_startable", [1], 10)


async def test_a_slot_that_was_made_meanwhile_is_not_due(database_url: str) -> None:
    async with pool(database_url, "gated") as slow, pool(database_url) as quick:
        past = datetime(2026, 1, 1, tzinfo=UTC)
        await declare(quick, dag("d", CronSchedule("0 * * * *"), start_date=past))
        async with Gate.in_reading(database_url, "dag") as gate, asyncio.TaskGroup() as group:
            late = group.create_task(claim_due(slow))
            await gate.reached()
            assert await CreateTimedRuns(Scheduler(quick).role, Versions()).run_once()
            await gate.open()
        assert late.result() == []
        assert (await healthy(quick))["runs"] == 1


async def claim_due(database: Database) -> list[Any]:
    async with database.transaction() as tx:
        return await tx.fetch("dags/claim_due", [1], 100, None)


async def test_a_continuous_run_that_was_made_meanwhile_is_under_way(database_url: str) -> None:
    async with pool(database_url, "gated") as slow, pool(database_url) as quick:
        await declare(quick, dag("d", ContinuousSchedule()))
        async with Gate.in_reading(database_url, "dag") as gate, asyncio.TaskGroup() as group:
            late = group.create_task(slow.fetch("runs/create_continuous", WORKER, [1], None))
            await gate.reached()
            assert await CreateContinuousRuns(Scheduler(quick).role).run_once()
            await gate.open()
        assert late.result() == []
        assert (await healthy(quick))["runs"] == 1


async def test_an_advancer_sees_how_far_the_run_has_come(database_url: str) -> None:
    async with pool(database_url, "gated") as slow, pool(database_url) as quick:
        await declare(quick, dag("d", None, "one", "two"))
        await runs.create_manual(quick, "d", by={})
        scheduler = Scheduler(quick)
        await scheduler.settle()
        done = await claim_tasks(quick, WORKER)
        await finish(quick, WORKER, report(done["one"]))
        async with Gate.in_reading(database_url, "run") as gate, asyncio.TaskGroup() as group:
            late = group.create_task(Scheduler(slow).advance.run_once())
            await gate.reached()
            await finish(quick, WORKER, report(done["two"]))
            await scheduler.settle()
            await gate.open()
        assert late.result()
        assert await rows(quick, "select state::text from run") == [("success",)]
        await healthy(quick)


async def test_a_rescuer_spares_a_task_that_was_renewed_meanwhile(database_url: str) -> None:
    """Here the condition is on the locked row itself, which is read again when it was changed."""
    async with pool(database_url, "gated") as slow, pool(database_url) as quick:
        await declare(quick, dag("d"))
        await runs.create_manual(quick, "d", by={})
        await Scheduler(quick).settle()
        task = (await claim_tasks(quick, WORKER))["work"]
        await rows(quick, "update task set lease_until = clock_timestamp()")
        async with Gate.in_reading(database_url, "task") as gate, asyncio.TaskGroup() as group:
            late = group.create_task(tasks.rescue(slow, take_over=True))
            await gate.reached()
            assert await tasks.renew(quick, WORKER, [(task.id, task.token)], 60.0) == {task.id}
            await gate.open()
        assert late.result() == 0
        assert await finish(quick, WORKER, report(task)) == ["finished"]


async def test_a_worker_claims_no_task_that_was_claimed_meanwhile(database_url: str) -> None:
    async with pool(database_url, "gated") as slow, pool(database_url) as quick:
        await declare(quick, dag("d", None, "one", "two"))
        await runs.create_manual(quick, "d", by={})
        await Scheduler(quick).settle()
        async with Gate.in_reading(database_url, "task") as gate, asyncio.TaskGroup() as group:
            late = group.create_task(tasks.claim(slow, uuid.UUID(int=2), 10, 60.0))
            await gate.reached()
            [first] = await tasks.claim(quick, WORKER, 1, 60.0)
            await gate.open()
        assert [t.task_id for t in late.result()] == [{"one": "two", "two": "one"}[first.task_id]]
        await healthy(quick)
