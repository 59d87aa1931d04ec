"""A watcher's owner is killed, or frozen: how soon another one looks, and whether a change was lost or doubled.

The changes have no key, so only the cursor and the fence keep them single.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import time
from collections import Counter
from pathlib import Path

from benchmarks.dagfiles import STAMPS, reading
from benchmarks.figures import Figure
from benchmarks.processes import tree
from benchmarks.system import Setup, System, running, until

INTERVAL = 0.1
KILLS = 5
FREEZES = 2
FROZEN_SECONDS = 20.0
OWNER = "select p.pid from watcher w join process p on p.id = w.owner where p.state = 'running'"


async def measure(setup: Setup) -> list[Figure]:
    home = setup.folder / "takeover"
    home.mkdir(parents=True)
    source = home / "lines.txt"
    source.touch()
    async with running(home, {"watcher.py": reading(home, source, INTERVAL)}) as system:
        await system.wait_for_dags("consumer")
        await _owner(system)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(_write(source, stop))
            killed = [await _kill(system) for _ in range(setup.count(KILLS, 2))]
            frozen = [await _freeze(system) for _ in range(setup.count(FREEZES))]
            stop.set()
        lines = writing.result()
        seen = await _events(system, lines)
    lost, doubled = lines - len(seen), sum(seen.values()) - len(seen)
    setup.note(f"takeover: {lines} changes, {lost} lost, {doubled} doubled; killed {killed}, frozen {frozen} s")
    return [
        Figure("takeover.killed", statistics.median(killed) * 1000, "ms", "until another owner looks"),
        Figure("takeover.killed, worst", max(killed) * 1000, "ms", "until another owner looks"),
        Figure("takeover.frozen", max(frozen) * 1000, "ms", f"for {FROZEN_SECONDS:g} s, worst of {len(frozen)}"),
        Figure("takeover.changes lost", lost, "", f"of {lines}"),
        Figure("takeover.changes doubled", doubled, "", f"of {lines}"),
    ]


async def _write(source: Path, stop: asyncio.Event) -> int:
    """Something changes all the time, until `stop`; how many changes there were."""
    number = 0
    while not stop.is_set():
        with source.open("a") as file:
            file.write(f"{number}\n")
        number += 1
        await asyncio.sleep(0.05)
    return number


async def _owner(system: System) -> list[int]:
    """The processes of the triggerer that owns the watcher and has looked, itself first."""

    async def found() -> list[int]:
        pid = await system.sql.fetchval(OWNER)
        pids = list(tree(pid)) if pid else []
        return pids if any(poller in pids for poller in _polls(system)) else []

    return await until(found, 60, "the watcher to have an owner that looks")


async def _kill(system: System) -> float:
    await asyncio.sleep(1)
    pids = await _owner(system)
    at = time.time()
    os.kill(pids[0], signal.SIGKILL)
    return await _next_look(system, pids, at)


async def _freeze(system: System) -> float:
    """Freeze a triggerer with its guests, as when its machine is paused, and let it go on later."""
    await asyncio.sleep(1)
    pids = await _owner(system)
    at = time.time()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    taken = await _next_look(system, pids, at)
    await asyncio.sleep(max(0.0, at + FROZEN_SECONDS - time.time()))
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    await asyncio.sleep(2)
    return taken


async def _next_look(system: System, before: list[int], at: float) -> float:
    """Seconds until a guest of somebody else polled."""

    async def looked() -> float:
        return min(
            (t for pid, times in _polls(system).items() if pid not in before for t in times if t > at), default=0
        )

    return await until(looked, 60, "another owner to look") - at


def _polls(system: System) -> dict[int, list[float]]:
    """When each guest polled, by its process id."""
    found: dict[int, list[float]] = {}
    path = system.home / STAMPS
    for line in path.read_text().splitlines() if path.exists() else ():
        at, *mark = line.split()
        if mark[0] == "poll":
            found.setdefault(int(mark[1]), []).append(float(at))
    return found


async def _events(system: System, lines: int) -> Counter[int]:
    """How often each line became an event, once nothing more comes."""
    query = "select (extra->>'line')::int as line from event"

    async def complete() -> bool:
        return await system.sql.fetchval(f"select count(distinct line) from ({query}) x") >= lines

    with contextlib.suppress(TimeoutError):  # what is missing is the result
        await until(complete, 20, "every line to have its event")
    return Counter(r["line"] for r in await system.sql.fetch(query))
