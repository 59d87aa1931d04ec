"""1,000 polling watchers on one triggerer: at rest, a change's way to its event, all changing at once."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from benchmarks.dagfiles import polling
from benchmarks.figures import Figure, percentile
from benchmarks.processes import memory, spent
from benchmarks.system import Setup, System, running, until

INTERVAL = 2.0
CHANGES = 100
OURS = ("triggerer", "trigger guest")
EVENTS = """
select a.name, extract(epoch from e.created_at)::float8 as committed from event e join asset a on a.id = e.asset_id
order by e.id offset $1
"""


async def measure(setup: Setup) -> list[Figure]:
    number = setup.count(1000, 50)
    variant = f"{number} watchers, every {INTERVAL:g} s"
    async with _watching(setup, "Modified", number) as (system, looked):
        first = await system.sql.fetchval("select count(*) from event")
        (cpu, postgres), held = await _rest(setup, system), memory(system.pid)
        changes = await _change_some(system, setup.count(CHANGES, 10), number, first)
        seconds = await _change_all(system, number)
    async with _watching(setup, "Polled", number) as (system, _):
        helped, _ = await _rest(setup, system)
    setup.note("memory, MiB: " + ", ".join(f"{k} {v:.0f}" for k, v in held.items()))
    return [
        Figure("watchers.all have looked once", looked, "s", f"{variant}, since the command"),
        Figure("watchers.cpu", cpu, "%", variant),
        Figure("watchers.cpu of PostgreSQL", postgres, "%", f"{variant}, all that runs"),
        Figure("watchers.cpu with PollTrigger", helped, "%", variant),
        Figure("watchers.memory of the triggerer", held["triggerer"] + held["trigger guest"], "MiB", variant),
        Figure("watchers.change → event row p50", statistics.median(changes) * 1000, "ms", variant),
        Figure("watchers.change → event row p95", percentile(changes, 95) * 1000, "ms", variant),
        Figure("watchers.all change, until all runs are done", seconds, "s", variant),
    ]


@asynccontextmanager
async def _watching(setup: Setup, trigger: str, number: int) -> AsyncGenerator[tuple[System, float]]:
    """A system at rest whose one triggerer has so many watchers, and after how many seconds each had looked once."""
    home = setup.folder / trigger
    (home / "watched").mkdir(parents=True)
    for n in range(number):
        (home / "watched" / str(n)).touch()
    files = {"watchers.py": polling(home, number, INTERVAL, trigger)}
    async with running(home, files, "--triggerers", "1") as system:

        async def all_looked() -> bool:
            return await system.sql.fetchval("select count(*) from watcher where cursor is not null") == number

        await until(all_looked, 120, f"{number} watchers to have looked once", every=0.05)
        looked = time.time() - system.spawned
        await system.wait_for_runs("consumer", number, every=0.1)
        await asyncio.sleep(5 * INTERVAL)
        yield system, looked


async def _rest(setup: Setup, system: System) -> tuple[float, float]:
    """CPU time of the triggerer with its guest, and of all of PostgreSQL, in percent of a core."""
    before, began = await system.cpu(), time.monotonic()
    await asyncio.sleep(setup.count(30, 10))
    seconds = time.monotonic() - began
    shares = {name: c.total / seconds * 100 for name, c in spent(before, await system.cpu()).items()}
    setup.note("watchers, CPU in percent of a core: " + ", ".join(f"{n} {s:.2f}" for n, s in shares.items() if s))
    postgres = sum(share for name, share in shares.items() if name.startswith("postgres"))
    return sum(shares.get(name, 0.0) for name in OURS), postgres


async def _change_some(system: System, changes: int, number: int, first: int) -> list[float]:
    """Seconds from the change of a file to its event's row, for files that change one after the other."""
    changed = {}
    for n in random.sample(range(number), min(changes, number)):
        await asyncio.sleep(random.uniform(0.02, 0.1))
        changed[f"file_{n}"] = _touch(system, n)

    async def all_events() -> bool:
        return await system.sql.fetchval("select count(*) from event") == first + len(changed)

    await until(all_events, 60, "an event for every change")
    rows = await system.sql.fetch(EVENTS, first)
    await system.wait_for_runs("consumer", first + len(changed))
    return [r["committed"] - changed[r["name"]] for r in rows]


async def _change_all(system: System, number: int) -> float:
    done = await system.sql.fetchval("select count(*) from run")
    began = time.time()
    for n in range(number):
        _touch(system, n)
    await system.wait_for_runs("consumer", done + number, every=0.1)
    return time.time() - began


def _touch(system: System, number: int) -> float:
    os.utime(system.home / "watched" / str(number))
    return time.time()
