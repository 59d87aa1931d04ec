"""A task's outlet: from the event's row to user code of the consumer."""

from __future__ import annotations

import asyncio
import random

from benchmarks.dagfiles import ASSET, outlet, stamps
from benchmarks.figures import Figure, spread
from benchmarks.system import Setup, emitting

WARM_UP = 3
EVENTS = """
select r.run_id, extract(epoch from e.created_at)::float8 as committed
from run r join dag d on d.id = r.dag_id join event e on e.id = r.start_event
where d.dag_id = 'consumer' order by e.id offset $1
"""


async def measure(setup: Setup) -> list[Figure]:
    figures = []
    for schedulers in setup.schedulers:
        figures += await _measure(setup, schedulers)
    return figures


async def _measure(setup: Setup, schedulers: int) -> list[Figure]:
    home, count = setup.folder / f"outlet{schedulers}", setup.count(100, 10)
    async with emitting(home, {"outlet.py": outlet(home)}, schedulers=schedulers) as (system, emitter):
        await system.wait_for_dags("producer", "consumer")
        for done in range(WARM_UP):
            await emitter.emit(ASSET)
            await system.wait_for_runs("consumer", done + 1)
        for _ in range(count):
            await asyncio.sleep(random.uniform(0.2, 0.4))
            await emitter.emit(ASSET)
        await system.wait_for_runs("consumer", WARM_UP + count)
        rows = await system.sql.fetch(EVENTS, WARM_UP)
    code = stamps(home)
    assert len(rows) == count
    variant = f"{schedulers} scheduler{'s' * (schedulers > 1)}"
    return spread("outlet.outlet → user code", [code[r["run_id"]] - r["committed"] for r in rows], variant)
