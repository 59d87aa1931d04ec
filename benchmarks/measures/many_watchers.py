"""10,000 watchers in one triggerer: what each costs in memory, and how long until all have looked once."""

from __future__ import annotations

import time

from benchmarks.dagfiles import quiet
from benchmarks.figures import Figure
from benchmarks.processes import memory
from benchmarks.system import Setup, running, until

FEW = 100
OURS = ("triggerer", "trigger guest")
LOOKED = "select count(*) from watcher where last_observation is not null"


async def measure(setup: Setup) -> list[Figure]:
    number = setup.count(10_000, 1_000)
    few, _ = await _held(setup, FEW)
    many, looked = await _held(setup, number)
    each = (many - few) / (number - FEW) * 1024
    setup.note(f"memory of triggerer and guest, MiB: {FEW} watchers {few:.1f}, {number} watchers {many:.1f}")
    variant = f"{number} watchers"
    return [
        Figure("many_watchers.memory of each", each, "kB", variant),
        Figure("many_watchers.all have looked once", looked, "s", f"{variant}, since their file was saved"),
    ]


async def _held(setup: Setup, number: int) -> tuple[float, float]:
    """Memory of the triggerer and its guest with so many watchers, in MiB, and after how long each had looked once."""
    home = setup.folder / f"many-{number}"
    async with running(home, {"first.py": "# the folder exists\n"}, "--triggerers", "1") as system:
        saved = time.time()
        (home / "dags" / "quiet.py").write_text(quiet(number))

        async def all_looked() -> bool:
            return await system.sql.fetchval(LOOKED) == number

        await until(all_looked, 300, f"{number} watchers to have looked once", every=0.2)
        seconds = time.time() - saved
        held = memory(system.pid)
        return sum(held.get(name, 0.0) for name in OURS), seconds
