"""What the promise costs: the path of a burst through the store, with identities, ledger and constraints and without.

The services of a scheduler and a local executor run here by hand, one after the other, and tasks end as soon as they
are claimed; what a task's process costs comes on top, and is the same in both.
"""

from __future__ import annotations

import statistics
import time
import uuid
from pathlib import Path

import asyncpg

from benchmarks.dagfiles import ASSET
from benchmarks.figures import Figure
from benchmarks.system import Setup
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

EVENTS = 2000
BATCH = 100
ROUNDS = 5
WITHOUT = Path(__file__).with_name("promise_without.sql")


async def measure(setup: Setup) -> list[Figure]:
    count = setup.count(EVENTS, BATCH)
    server = EmbeddedPostgres(setup.folder / "promise")
    url = server.start()
    times: dict[str, list[float]] = {"with": [], "without": []}
    try:
        other = await _another(url)
        for _ in range(ROUNDS + 1):
            times["with"].append(await _path(url, count))
            times["without"].append(await _path(other, count))
    finally:
        server.stop()
    taken = {name: statistics.median(found[1:]) / count * 1000 for name, found in times.items()}
    setup.note("promise, ms per event of each round: " + "; ".join(f"{n} {_shown(t, count)}" for n, t in times.items()))
    return [
        Figure("promise.path with it", taken["with"], "ms", "per event"),
        Figure("promise.path without it", taken["without"], "ms", "per event"),
        Figure("promise.cost", (taken["with"] / taken["without"] - 1) * 100, "%"),
    ]


def _shown(times: list[float], count: int) -> str:
    return ", ".join(f"{seconds / count * 1000:.2f}" for seconds in times)


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


async def _path(url: str, count: int) -> float:
    """Seconds for so many events: recorded, consumed by a run each, run and ended."""
    async with await Database.connect(url, kind="bench", lease_seconds=60) as database:
        role = Role("scheduler", uuid.uuid4(), Settings(), database, Wakeups(), steady_since=float("-inf"))
        versions = Versions()
        create, advance = CreateAssetRuns(role, versions), AdvanceRuns(role, versions)
        await _declare(database)
        began = time.monotonic()
        for start in range(0, count, BATCH):
            changes = [change(ASSET, f"{began}-{start + n}") for n in range(BATCH)]
            await events.record(database, changes, {"kind": "bench"})
            while await create.run_once():
                pass
            while claimed := await tasks.claim(database, role.id, BATCH, 60.0):
                ended = [Report(t.id, t.attempt, t.token, TaskState.SUCCESS, Outcome.SUCCESS) for t in claimed]
                await tasks.finish(database, role.id, ended, {})
                while await advance.run_once():
                    pass
        return time.monotonic() - began


async def _declare(database: Database) -> None:
    schedule = AssetSchedule(["asset", ASSET], "each")
    dag = DagSpec(
        "consumer", schedule, (TaskSpec("work"),), "consumer.py", max_active_runs=BATCH, max_runs_per_minute=0
    )
    file = await files.add(database, "consumer.py")
    spec = FileSpec("consumer.py", uuid.uuid4().hex, (dag,), (AssetSpec(ASSET),))
    await files.register(database, file, spec, b"", paused=False, parse_seconds=0)
