"""Many producers and many consumers at once on one asset: nothing is lost, and nobody waits in a circle."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from ground import (
    Scheduler,
    change,
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
)

from onceflow.model.dagspec import TaskSpec
from onceflow.store import runs, statements, tasks
from onceflow.store.database import Database

CONSUMERS, PRODUCERS, TASKS, MANY = 100, 50, 200, 5000


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with pool(database_url, size=12) as database:
        yield database


async def test_a_hundred_consumers_of_fifty_producers(database: Database, database_url: str) -> None:
    """airflow #69938, #69977: half of the producers are tasks with an outlet, half record; three schedulers judge."""
    halves = PRODUCERS // 2
    await declare(
        database, "a", dag("p", None, *(TaskSpec(f"t{n}", outlets=("a",)) for n in range(halves))), path="p.py"
    )
    await declare(database, "a", *(dag(f"c{n}", each("a"), file="c.py") for n in range(CONSUMERS)), path="c.py")
    await rows(database, "update dag_version set spec = jsonb_set(spec::jsonb, '{max_active_tasks}', '100')::json")
    await runs.create_manual(database, "p", by={})
    await Scheduler(database).settle()
    workers = [uuid.UUID(int=n + 1) for n in range(halves)]
    claimed = [await tasks.claim(database, worker, 1, 60.0) for worker in workers]
    [(asset,)] = await rows(database, "select id from asset")
    over = asyncio.Event()

    async def produce() -> None:
        ends = (
            finish(database, worker, report(task, changes=[change("a")]), assets={"a": asset})
            for worker, [task] in zip(workers, claimed, strict=True)
        )
        told = await together_all(*ends, *(record(database, "a") for _ in range(halves)))
        assert told.count(["finished"]) == halves
        over.set()

    async def judge() -> None:
        await until_quiet(Scheduler(database).judge.run_once, over)

    await together_all(produce(), judge(), judge(), judge())
    counted = await healthy(database)
    assert counted["events"] == PRODUCERS
    assert counted["by_disposition"] == {"started": PRODUCERS * CONSUMERS}
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0


async def test_two_hundred_tasks_of_a_run_end_at_once(database: Database, database_url: str) -> None:
    """airflow #66853, #66854, #66932, #70078: every end is stored, none waits in a circle, the run is over.

    How long that takes is measured by the benchmarks "parallel" and "fanout".
    """
    await declare(
        database,
        *("a", dag("d", None, *(TaskSpec(f"t{n}", outlets=("a",)) for n in range(TASKS)), max_active_tasks=TASKS)),
        path="d.py",
    )
    await runs.create_manual(database, "d", by={})
    scheduler = Scheduler(database)
    await scheduler.settle()
    worker = uuid.UUID(int=1)
    claimed = await tasks.claim(database, worker, TASKS, 60.0)
    assert len(claimed) == TASKS
    [(asset,)] = await rows(database, "select id from asset")
    ends = (finish(database, worker, report(t, changes=[change("a")]), assets={"a": asset}) for t in claimed)
    told = await together_all(*ends, *(scheduler.advance.run_once() for _ in range(5)))
    assert told.count(["finished"]) == TASKS
    await scheduler.settle()
    assert await rows(database, "select state::text from run") == [("success",)]
    assert (await healthy(database))["events"] == TASKS
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0


async def test_a_look_at_a_run_of_five_thousand_tasks(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """airflow #51212: however many tasks there are and have ended, a look is a handful of statements."""
    wide = tuple(TaskSpec(f"t{n}", () if n < MANY // 2 else (f"t{n - MANY // 2}",)) for n in range(MANY))
    await declare(database, dag("d", None, *wide, max_active_tasks=100))
    await runs.create_manual(database, "d", by={})
    scheduler, worker = Scheduler(database), uuid.UUID(int=1)
    await scheduler.settle()
    asked: list[str] = []
    text = statements.text
    monkeypatch.setattr(statements, "text", lambda name: asked.append(name) or text(name))
    for _ in range(3):
        claimed = await tasks.claim(database, worker, 100, 60.0)
        assert len(claimed) == 100
        await finish(database, worker, *(report(t) for t in claimed))
        asked.clear()
        assert await scheduler.advance.run_once()
        assert len(asked) <= 4, asked
        assert not await scheduler.advance.run_once()
