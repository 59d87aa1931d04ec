"""A chain of 100 trivial tasks: milliseconds per task."""

from __future__ import annotations

import statistics

from benchmarks.dagfiles import ASSET, CHAIN, head
from benchmarks.figures import Figure
from benchmarks.system import Setup, emitting

REPEATS = 3
SECONDS = """
select extract(epoch from r.finished_at - r.created_at)::float8 as seconds from run r where r.start_event = $1
"""


async def measure(setup: Setup) -> list[Figure]:
    return [await _measure(setup, schedulers) for schedulers in setup.schedulers]


async def _measure(setup: Setup, schedulers: int) -> Figure:
    home, tasks = setup.folder / f"chain{schedulers}", setup.count(100, 10)
    files = {"chained.py": head(home) + CHAIN.format(tasks=tasks)}
    times = []
    async with emitting(home, files, schedulers=schedulers) as (system, emitter):
        await system.wait_for_dags("chained")
        for done in range(1, REPEATS + 2):
            (event,), _ = await emitter.emit(ASSET)
            await system.wait_for_runs("chained", done)
            times.append(await system.sql.fetchval(SECONDS, event) / tasks * 1000)
    variant = f"{schedulers} scheduler{'s' * (schedulers > 1)}"
    setup.note(f"chain, {variant}: {', '.join(f'{t:.1f}' for t in times)} ms per task, the first is not counted")
    return Figure("chain.per task", statistics.median(times[1:]), "ms", variant)
