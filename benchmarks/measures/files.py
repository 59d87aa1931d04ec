"""500 DAG files: until all are live, what they cost at rest, and what saving one of them costs."""

from __future__ import annotations

import asyncio
import statistics
import time

from benchmarks.dagfiles import head
from benchmarks.figures import Figure, percentile
from benchmarks.measures.idle import cpu_share
from benchmarks.processes import spent, total
from benchmarks.system import Setup, System, running, until

SAVES = 10
SETTLE_SECONDS = 15.0
DAG = """
with DAG("dag_{number}", schedule=Asset("asset_{asset}")):
    first = work.override(task_id="first")()
    for name in ("second", "third", "fourth{edition}"):
        first >> work.override(task_id=name)()
"""
LIVE = """
select count(*) from dag d join dag_version v on v.id = d.version_id where d.dag_id = $1 and v.spec::text like $2
"""


async def measure(setup: Setup) -> list[Figure]:
    home, number = setup.folder / "files", setup.count(500, 50)
    heading = head(home)
    files = {name(n): heading + DAG.format(number=n, asset=n % 50, edition="") for n in range(number)}
    async with running(home, files) as system:

        async def all_live() -> bool:
            return await system.sql.fetchval("select count(*) from dag where active") == number

        await until(all_live, 300, f"{number} DAG files to be live", every=0.05)
        live, used = time.time() - system.spawned, spent({}, await system.cpu())
        most = ", ".join(f"{name} {c.total:.1f}" for name, c in list(used.items())[:6])
        setup.note(f"{number} files until live, CPU s by process: {most}")
        await asyncio.sleep(SETTLE_SECONDS)
        idle = await cpu_share(setup, system, f"idle with {number} files")
        times, seconds = await _save(setup, system, heading, idle)
    figures = [
        Figure("files.500 files live", live, "s", f"{number} files, since the command"),
        Figure("files.cpu until live", total(used), "s", f"{number} files"),
        Figure("files.idle cpu with 500 files", idle, "%", f"{number} files"),
    ]
    return [
        *figures,
        Figure("files.saved file live p50", statistics.median(times) * 1000, "ms", f"{number} files present"),
        Figure("files.saved file live worst", percentile(times, 100) * 1000, "ms", f"{number} files present"),
        Figure("files.cpu of a saved file", seconds * 1000, "ms", f"{number} files present"),
    ]


def name(number: int) -> str:
    """A file's name; none is a part of another's."""
    return f"dag_{number:03}.py"


async def _save(setup: Setup, system: System, heading: str, idle: float) -> tuple[list[float], float]:
    """Edit files one after the other: seconds until each is live, CPU seconds of each beyond those at rest."""
    times, before, began = [], await system.cpu(), time.monotonic()
    for number in range(SAVES):
        text = heading + DAG.format(number=number, asset=number, edition=f"_edited{number}")
        await asyncio.sleep(0.5)
        saved = time.monotonic()
        (system.dags / name(number)).write_text(text)

        async def live(number: int = number) -> bool:
            return await system.sql.fetchval(LIVE, f"dag_{number}", f"%_edited{number}%")

        await until(live, 60, "a saved file to be live", every=0.005)
        times.append(time.monotonic() - saved)
    passed = time.monotonic() - began
    used = spent(before, await system.cpu())
    most = ", ".join(f"{name} {c.total / SAVES * 1000:.0f}" for name, c in list(used.items())[:5])
    setup.note(f"a saved file, CPU ms by process, rest not subtracted: {most}")
    return times, max(0.0, total(used) - idle / 100 * passed) / SAVES
