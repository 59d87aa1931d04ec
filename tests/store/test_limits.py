"""Limits hold over the whole of a run, whatever becomes of its attempts; nobody has to free what a dead one held."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from ground import Scheduler, claim_tasks, dag, declare, finish, healthy, one_of, record, report, rows, together_all

from onceflow.model.dagspec import TaskSpec
from onceflow.model.states import Outcome, TaskState
from onceflow.scheduler.rescue import Rescue
from onceflow.store import runs, tasks
from onceflow.store.database import Database

ANNA, BERT = uuid.UUID(int=1), uuid.UUID(int=2)


async def states(database: Database) -> list[str]:
    """Of all runs, in order."""
    return [s for (s,) in await rows(database, "select state::text from run order by ordinal")]


async def lose_all(database: Database) -> None:
    """The workers are gone, and their leases over."""
    await rows(database, "update task set lease_until = clock_timestamp() - interval '1 s' where owner is not null")


async def test_a_run_keeps_its_place_while_a_task_waits_to_be_tried_again(database: Database) -> None:
    """procrastinate #1543, #1408, #292; inngest/inngest#2263: limits of runs and of tasks are two, and named.

    With max_active_runs=1 the second run waits while a task of the first is tried again, is lost with its worker and
    comes back, though for a time nothing of the first is executed; max_active_tasks=1 lets another task in meanwhile.
    """
    await declare(database, dag("d", None, TaskSpec("a", retries=1), "b", max_active_runs=1, max_active_tasks=1))
    for _ in range(2):
        await runs.create_manual(database, "d", by={})
    scheduler = Scheduler(database)
    await scheduler.settle()
    first = (await claim_tasks(database, ANNA))["a"]
    again = report(first, TaskState.UP_FOR_RETRY, Outcome.FAILED, retry_seconds=3600.0)
    assert await finish(database, ANNA, again) == ["finished"]
    await scheduler.settle()
    assert await states(database) == ["running", "queued"]
    other = await claim_tasks(database, ANNA)
    assert list(other) == ["b"]
    await finish(database, ANNA, report(other["b"]))
    await scheduler.settle()
    assert await claim_tasks(database, ANNA) == {}
    assert await states(database) == ["running", "queued"]

    await rows(database, "update task set retry_at = clock_timestamp() where retry_at is not null")
    await scheduler.settle()
    second = (await claim_tasks(database, ANNA))["a"]
    await lose_all(database)
    rescued = await together_all(*(Rescue(Scheduler(database).role).run_once() for _ in range(3)))
    assert sum(rescued) == 1  # the schedulers do it, no job of the user's, and one of them is enough
    await scheduler.settle()
    assert await states(database) == ["running", "queued"]
    third = (await claim_tasks(database, BERT))["a"]
    assert (second.attempt, third.attempt, third.failures) == (2, 3, 1)
    assert await finish(database, BERT, report(third)) == ["finished"]
    await scheduler.settle()
    assert await states(database) == ["success", "running"]
    await healthy(database)


@pytest.mark.parametrize("where", ["before the next task is queued", "with the next task queued", "in the next task"])
async def test_a_run_that_everybody_left_goes_on(database: Database, where: str) -> None:
    """dbos-inc/dbos-transact-py#805: stuck between two steps it would block a DAG of one run at a time for ever.

    Whoever was to go on with it is dead; another scheduler finds it by looking, and another worker ends it.
    """
    await declare(database, dag("d", None, "one", TaskSpec("two", ("one",)), max_active_runs=1))
    for _ in range(2):
        await runs.create_manual(database, "d", by={})
    dead = Scheduler(database)
    await dead.settle()
    await finish(database, ANNA, report((await claim_tasks(database, ANNA))["one"]))
    if where != "before the next task is queued":
        await dead.settle()
    if where == "in the next task":
        assert list(await claim_tasks(database, ANNA)) == ["two"]
        await lose_all(database)

    alive = Scheduler(database)
    seen = await database.fetchrow("server/glance", True, 100)
    assert seen is not None
    assert (seen["finish"], seen["rescue"]) == (where.startswith("before"), where.startswith("in the"))
    await Rescue(alive.role).run_once()
    await alive.settle()
    await finish(database, BERT, report((await claim_tasks(database, BERT))["two"]))
    await alive.settle()
    assert await states(database) == ["success", "running"]
    await healthy(database)


async def test_the_latest_alone_waits_and_one_alone_runs(database: Database) -> None:
    """timgit/pg-boss#367: at most one runs and at most one waits, whoever asks for more and whenever."""
    await declare(database, "a", dag("d", one_of("a", policy="latest"), max_active_runs=1))
    schedulers = [Scheduler(database) for _ in range(3)]
    ended: list[Any] = []
    for turn in range(4):
        for _ in range(3):
            await together_all(*(record(database, "a") for _ in range(2)), *(s.judge.run_once() for s in schedulers))
        await together_all(*(s.settle() for s in schedulers))
        running = await tasks.claim(database, ANNA, 10, 60.0)
        assert len(running) == 1, turn
        alive = "select count(*) filter (where state = 'running'), count(*) filter (where state = 'queued') from run"
        assert await rows(database, alive) == [(1, 0)]
        ended += await finish(database, ANNA, *(report(t) for t in running))
        await schedulers[0].advance.run_once()
    await schedulers[0].settle()
    assert ended == ["finished"] * 4
    [(newest,)] = await rows(database, "select max(id) from event")
    assert await rows(database, "select start_event from run order by ordinal desc limit 1") == [(newest,)]
    left = await rows(database, "select disposition::text from delivery where run_id is null group by 1")
    assert left == [("superseded",)]
    await healthy(database)
