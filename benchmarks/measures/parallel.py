"""500 trivial tasks of one run that may all go at once: tasks per second."""

from __future__ import annotations

import statistics

from benchmarks.dagfiles import ASSET, PARALLEL, head
from benchmarks.figures import Figure
from benchmarks.measures.chain import REPEATS, SECONDS
from benchmarks.processes import Cpu, spent
from benchmarks.system import Setup, emitting


async def measure(setup: Setup) -> list[Figure]:
    return [await _measure(setup, schedulers) for schedulers in setup.schedulers]


async def _measure(setup: Setup, schedulers: int) -> Figure:
    home, tasks = setup.folder / f"parallel{schedulers}", setup.count(500, 50)
    files = {"parallel.py": head(home) + PARALLEL.format(tasks=tasks)}
    rates: list[float] = []
    used: dict[str, Cpu] = {}
    async with emitting(home, files, schedulers=schedulers) as (system, emitter):
        await system.wait_for_dags("parallel")
        for done in range(1, REPEATS + 2):
            before = await system.cpu()
            (event,), _ = await emitter.emit(ASSET)
            await system.wait_for_runs("parallel", done)
            used = spent(before, await system.cpu())
            rates.append(tasks / await system.sql.fetchval(SECONDS, event))
    variant = f"{schedulers} scheduler{'s' * (schedulers > 1)}"
    most = ", ".join(f"{name} {c.total:.2f}" for name, c in list(used.items())[:6])
    rounds = ", ".join(f"{r:.0f}" for r in rates)
    setup.note(f"parallel, {variant}: {rounds} tasks/s, the first is not counted; CPU s of the last: {most}")
    return Figure("parallel.tasks", statistics.median(rates[1:]), "tasks/s", variant)
