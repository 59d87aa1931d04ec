"""Events so far apart that everything has gone to rest: spare connections closed, plans forgotten, pages cold."""

from __future__ import annotations

import asyncio

from benchmarks.dagfiles import ASSET, consumer, stamps
from benchmarks.figures import Figure, percentile
from benchmarks.measures.latency import TIMES, WARM_UP, stages
from benchmarks.system import Setup, emitting

EVENTS = 5
APART = 35.0


async def measure(setup: Setup) -> list[Figure]:
    home, count = setup.folder / "rare", setup.count(EVENTS, 1)
    committed: dict[int, float] = {}
    async with emitting(home, {"consumer.py": consumer(home)}) as (system, emitter):
        await system.wait_for_dags("consumer")
        await emitter.emit(ASSET, WARM_UP)
        await system.wait_for_runs("consumer", WARM_UP)
        for _ in range(count):
            await asyncio.sleep(APART)
            (event,), at = await emitter.emit(ASSET)
            committed[event] = at
        await system.wait_for_runs("consumer", WARM_UP + count)
        rows = [r for r in await system.sql.fetch(TIMES) if r["start_event"] in committed]
    code, variant = stamps(home), f"2 schedulers, {count} events {APART:g} s apart"
    stages(setup, variant, rows, committed, code)
    times = [(code[r["run_id"]] - committed[r["start_event"]]) * 1000 for r in rows]
    return [
        Figure("rare.event → user code p50", percentile(times, 50), "ms", variant),
        Figure("rare.event → user code worst", max(times), "ms", variant),
    ]
