"""What the promise costs: the same load with identities, ledger and constraints, and without.

    whole path   real services: events are recorded, consumed by a run each, and a process of its own ends each task
    store path   the same without processes: the services of a scheduler and a local executor are called one after the
                 other, and tasks end as soon as they are claimed; the promise is kept in the store, so this is where
                 its cost is seen best, and it says nothing of what a user waits for

Both sides exist at the same time and take turns, a batch each, so that what else the machine does hits both; the cost
is the median of the turns' ratios. "Without" is today's schema changed by `promise_without.sql`.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg

from benchmarks.dagfiles import ASSET, consumer
from benchmarks.emitter import Emitter
from benchmarks.figures import Figure
from benchmarks.system import Setup, System, emitting
from onceflow.config import Settings
from onceflow.model.dagspec import AssetSchedule, AssetSpec, DagSpec, FileSpec, TaskSpec
from onceflow.model.states import Outcome, TaskState
from onceflow.runtime.postgres import EmbeddedPostgres
from onceflow.runtime.role import Role
from onceflow.runtime.wakeups import Wakeups
from onceflow.scheduler.advance_runs import AdvanceRuns
from onceflow.scheduler.create_asset_runs import CreateAssetRuns
from onceflow.store import events, files, tasks
from onceflow.store.database import Database
from onceflow.store.emit import change
from onceflow.store.migrate import migrate
from onceflow.store.tasks import Report
from onceflow.store.versions import Versions

BATCH = 100
WARM_UP = 3
STORE_TURNS = 100
WHOLE_TURNS = 30
WITHOUT = Path(__file__).with_name("promise_without.sql")
Turn = Callable[[], Awaitable[None]]


async def measure(setup: Setup) -> list[Figure]:
    return await _whole_path(setup) + await _store_path(setup)


async def _in_turns(setup: Setup, path: str, turns: int, with_it: Turn, without_it: Turn) -> list[Figure]:
    """The figures of a path: both sides in turns, each first as often as the other."""
    spent: dict[Turn, list[float]] = {with_it: [], without_it: []}
    for n in range(WARM_UP + setup.count(turns, 3)):
        for side in (with_it, without_it) if n % 2 else (without_it, with_it):
            began = time.monotonic()
            await side()
            spent[side].append((time.monotonic() - began) / BATCH * 1000)
    pairs = list(zip(*(found[WARM_UP:] for found in spent.values()), strict=True))
    ratios = sorted(one / other for one, other in pairs)
    quarter = len(ratios) // 4
    setup.note(
        f"promise, {path}: {len(pairs)} turns of {BATCH} events; half of them cost between "
        f"{(ratios[quarter] - 1) * 100:.0f} and {(ratios[-1 - quarter] - 1) * 100:.0f} %"
    )
    return [
        Figure("promise.an event with it", statistics.median(p[0] for p in pairs), "ms", path),
        Figure("promise.an event without it", statistics.median(p[1] for p in pairs), "ms", path),
        Figure("promise.cost", (statistics.median(ratios) - 1) * 100, "%", path),
    ]


# The whole path -----------------------------------------------------------------------------------------------------


async def _whole_path(setup: Setup) -> list[Figure]:
    async with AsyncExitStack() as stack:
        sides = []
        for name in ("with", "without"):
            home = setup.folder / name
            options = f", max_active_runs={BATCH}, max_runs_per_minute=0"
            opened = emitting(home, {"consumer.py": consumer(home, options=options)}, schedulers=1)
            system, emitter = await stack.enter_async_context(opened)
            await system.wait_for_dags("consumer")
            sides.append(_Whole(system, emitter))
        await sides[1].system.sql.execute(WITHOUT.read_text())
        return await _in_turns(setup, "whole path", WHOLE_TURNS, sides[0].take_turn, sides[1].take_turn)


class _Whole:
    """A running system, and how many runs it has ended."""

    def __init__(self, system: System, emitter: Emitter) -> None:
        self.system = system
        self._emitter = emitter
        self._runs = 0

    async def take_turn(self) -> None:
        """Emit a batch and wait until its last run has ended."""
        self._runs += BATCH
        await self._emitter.emit(ASSET, BATCH)
        await self.system.wait_for_runs("consumer", self._runs, every=0.01)


# The store's part ---------------------------------------------------------------------------------------------------


async def _store_path(setup: Setup) -> list[Figure]:
    server = EmbeddedPostgres(setup.folder / "promise")
    url = server.start()
    try:
        async with AsyncExitStack() as stack:
            sides = []
            for address in (url, await _another(url)):
                database = await Database.connect(address, kind="bench", lease_seconds=60)
                await stack.enter_async_context(database)
                await _declare(database)
                sides.append(_Stored(database))
            return await _in_turns(setup, "store path", STORE_TURNS, sides[0].take_turn, sides[1].take_turn)
    finally:
        server.stop()


async def _another(url: str) -> str:
    """A second database beside the one given, without the promise; both are migrated."""
    await migrate(url)
    connection = await asyncpg.connect(url)
    await connection.execute("create database without")
    await connection.close()
    other = url.replace("/onceflow?", "/without?") if "/onceflow?" in url else f"{url.rpartition('/')[0]}/without"
    await migrate(other)
    connection = await asyncpg.connect(other)
    await connection.execute(WITHOUT.read_text())
    await connection.close()
    return other


async def _declare(database: Database) -> None:
    schedule = AssetSchedule(["asset", ASSET], "each")
    dag = DagSpec(
        "consumer", schedule, (TaskSpec("work"),), "consumer.py", max_active_runs=BATCH, max_runs_per_minute=0
    )
    file = await files.add(database, "consumer.py")
    spec = FileSpec("consumer.py", uuid.uuid4().hex, (dag,), (AssetSpec(ASSET),))
    await files.register(database, file, spec, b"", paused=False, parse_seconds=0)


class _Stored:
    """A database with a scheduler's services."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._role = Role("scheduler", uuid.uuid4(), Settings(), database, Wakeups(), steady_since=float("-inf"))
        versions = Versions()
        self._create, self._advance = CreateAssetRuns(self._role, versions), AdvanceRuns(self._role, versions)

    async def take_turn(self) -> None:
        """A batch of events: recorded, consumed by a run each, run and ended."""
        changes = [change(ASSET, uuid.uuid4().hex) for _ in range(BATCH)]
        await events.record(self._database, changes, {"kind": "bench"})
        while await self._create.run_once():
            pass
        while claimed := await tasks.claim(self._database, self._role.id, BATCH, 60.0):
            ended = [Report(t.id, t.attempt, t.token, TaskState.SUCCESS, Outcome.SUCCESS) for t in claimed]
            await tasks.finish(self._database, self._role.id, ended, {})
            while await self._advance.run_once():
                pass
