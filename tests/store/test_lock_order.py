"""All write paths at once on a few rows: nobody waits for another in a circle, and the promise holds at the end.

Deadlocks are designed out by the one order of locks (watcher, asset, change key, event, consumer, delivery, run, task),
not retried away; so a single one, of whoever, fails this.
"""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from ground import (
    SOURCE,
    Scheduler,
    change,
    connected,
    dag,
    deadlocks,
    declare,
    each,
    healthy,
    pool,
    record,
    together,
    together_all,
    without_result,
)

from onceflow.model.dagspec import AssetSpec, ContinuousSchedule, IntervalSchedule, TaskSpec, WatcherSpec
from onceflow.model.errors import FencedError, StaleError
from onceflow.model.states import Outcome, TaskState, TriggerRule
from onceflow.scheduler.create_timed_runs import CreateContinuousRuns, CreateTimedRuns
from onceflow.store import assets, dags, events, processes, runs, tasks, watchers
from onceflow.store.database import Database
from onceflow.store.events import Ownership
from onceflow.store.tasks import ClaimedTask, Report
from onceflow.store.versions import Versions

NAMES = [f"a{i}" for i in range(4)]
EDITS = 10
FAR = datetime(2100, 1, 1, tzinfo=UTC)

BRANCHING = (
    TaskSpec("left", ("branch", "other"), TriggerRule.NONE_FAILED),
    TaskSpec("right", ("branch", "other"), TriggerRule.ONE_SUCCESS),
    TaskSpec("branch", outlets=("a0",)),
    TaskSpec("other", retries=1, outlets=("a1",)),
)


class Traffic:
    """Everybody who writes, until the last edit is done."""

    def __init__(self, database: Database, seed: int) -> None:
        self.database = database
        self.seed = seed
        self.over = asyncio.Event()
        self.assets: dict[str, int] = {}

    def dice(self, who: str, n: int = 0) -> random.Random:
        return random.Random(f"{self.seed} {who} {n}")

    async def repeat(self, step: Callable[[], Awaitable[Any]]) -> None:
        while not self.over.is_set():
            await step()

    def assets_with_watchers(self, dice: random.Random) -> list[AssetSpec]:
        """All assets in any order, each with a watcher of its own and one of all; the arguments of that one change."""
        shared = WatcherSpec("w", "triggers.Poll", {"n": dice.randint(1, 3)}, where="f.py:1")
        return [
            AssetSpec(
                n, watchers=(WatcherSpec("v", "triggers.Poll", {"of": n}, where="f.py:1"), shared), where="f.py:1"
            )
            for n in dice.sample(NAMES, 4)
        ]

    async def declare_all(self, dice: random.Random) -> None:
        some = dice.sample(NAMES, dice.randint(2, 4))
        await declare(
            self.database,
            *self.assets_with_watchers(dice),
            dag("each", each(*some), *BRANCHING, file="f.py", max_active_runs=dice.randint(1, 5)),
            dag("all", together(*some[:2]), *BRANCHING, file="f.py", dagrun_timeout=3600.0),
            dag("timed", IntervalSchedule(0.05), file="f.py", max_active_runs=3),
            *([dag("sometimes", each(*some[:1]), file="f.py")] if dice.random() < 0.7 else []),
            path="f.py",
        )

    async def editor(self) -> None:
        dice = self.dice("editor")
        for _ in range(EDITS):
            await self.declare_all(dice)
            three = dice.sample(NAMES, 3)
            await declare(self.database, *three, dag("other", each(*three[:2]), file="g.py"))
            await declare(self.database, dag("endless", ContinuousSchedule(), file="h.py"))
        self.over.set()

    async def recorder(self, n: int) -> None:
        dice = self.dice("recorder", n)
        keys = [None, *map(str, range(20))]
        await record(self.database, *(change(dice.choice(NAMES), dice.choice(keys)) for _ in range(dice.randint(1, 8))))

    async def owner(self, n: int) -> None:
        """A triggerer: claims, writes, renews, now and then is taken for dead or gives up."""
        me, dice, database = uuid.UUID(int=n), self.dice("owner", n), self.database
        held = await watchers.claim(database, me, 5, take_over=True)
        for watcher in held:
            seen = [change(dice.choice(NAMES)) for _ in range(dice.randint(0, 3))]
            try:
                cursor = json.dumps(dice.random())
                right = Ownership(watcher.id, me, watcher.term, watcher.routes.number)
                await events.record_if_owner(database, right, seen, SOURCE, cursor=cursor)
            except (FencedError, StaleError):
                continue
        dice.shuffle(held)
        await watchers.observed(database, me, [(w.id, w.term) for w in held])
        if dice.random() < 0.3:
            await processes.release(database, [me, uuid.UUID(int=n + 1)])
        else:
            await watchers.release(database, me, [(w.id, w.term) for w in held])

    async def worker(self, n: int) -> None:
        me, dice, database = uuid.UUID(int=n), self.dice("worker", n), self.database
        claimed = await tasks.claim(database, me, 6, 60.0)
        if not claimed:
            return
        dice.shuffle(claimed)
        renewing = tasks.renew(database, me, [(t.id, t.token) for t in claimed], 60.0)
        for task in claimed[:1]:
            await database.fetchrow("xcoms/put_if_attempt", task.id, task.token, "k", "1")
        if dice.random() < 0.1:
            await processes.release(database, [me])
        reports = [self.report(task, dice) for task in claimed]
        finishing = tasks.finish(database, me, reports, self.assets)
        await together_all(without_result(renewing), without_result(finishing))

    def report(self, task: ClaimedTask, dice: random.Random) -> Report:
        key = task.id, task.attempt, task.token
        if task.task_id == "other" and dice.random() < 0.3 and task.failures == 0:
            return Report(*key, TaskState.UP_FOR_RETRY, Outcome.FAILED, retry_seconds=0.0)
        skip = json.dumps(dice.sample(["left", "right"], dice.randint(0, 2))) if task.task_id == "branch" else None
        seen = [change(dice.choice(NAMES), str(dice.randrange(30))) for _ in range(dice.randint(0, 2))]
        return Report(*key, TaskState.SUCCESS, Outcome.SUCCESS, value="1", skip=skip, changes=seen)

    async def rescuer(self) -> None:
        await processes.bury(self.database, expired=True)
        await tasks.rescue(self.database, take_over=True)

    async def expirer(self) -> None:
        await self.database.fetch("runs/expire", 2, FAR)
        await self.hand()

    async def hand(self) -> None:
        """Somebody at the command line."""
        await runs.create_manual(self.database, "all", by={})
        await dags.pause(self.database, "each", by={})
        await dags.unpause(self.database, "each", by={})


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with pool(database_url, size=12) as database:
        yield database


@pytest.mark.parametrize("seed", [1, 2])
async def test_everybody_at_once(database: Database, database_url: str, seed: int) -> None:
    traffic = Traffic(database, seed)
    await traffic.declare_all(traffic.dice("first"))
    traffic.assets = {n: a.id for n, a in (await assets.find(database, NAMES)).items()}
    for n in range(2):
        await processes.register(database, uuid.UUID(int=100 + n), "triggerer", 600.0)
        await processes.renew(database, uuid.UUID(int=100 + n), 600.0, ready=True)
    schedulers = [Scheduler(database) for _ in range(2)]
    await together_all(
        traffic.editor(),
        *(traffic.repeat(lambda n=n: traffic.recorder(n)) for n in range(2)),
        *(traffic.repeat(lambda n=n: traffic.owner(100 + n)) for n in range(2)),
        *(traffic.repeat(lambda n=n: traffic.worker(200 + n)) for n in range(3)),
        *(traffic.repeat(s.judge.run_once) for s in schedulers),
        *(traffic.repeat(s.start.run_once) for s in schedulers),
        *(traffic.repeat(s.advance.run_once) for s in schedulers),
        *(traffic.repeat(CreateTimedRuns(s.role, Versions()).run_once) for s in schedulers),
        *(traffic.repeat(CreateContinuousRuns(s.role).run_once) for s in schedulers),
        traffic.repeat(traffic.rescuer),
        traffic.repeat(traffic.expirer),
    )
    await work_off(database, traffic)
    counted = await healthy(database)
    assert counted["runs"] > 50 and counted["events"] > 40
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0


async def work_off(database: Database, traffic: Traffic) -> None:
    """Bring everything to its end, in peace."""
    scheduler = Scheduler(database)
    await dags.unpause(database, "each", by={})
    await tasks.rescue(database, take_over=True)
    worker = uuid.UUID(int=300)
    while True:
        await scheduler.settle()
        claimed = await tasks.claim(database, worker, 50, 60.0)
        if not claimed:
            break
        reports = [Report(t.id, t.attempt, t.token, TaskState.SUCCESS, Outcome.SUCCESS) for t in claimed]
        await tasks.finish(database, worker, reports, traffic.assets)
    left = await database.fetch("runs/list", None, "running", None, None, None, None, False, 10, 0)
    assert left == []
