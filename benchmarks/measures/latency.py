"""Events far apart: from the commit to the run's row, to user code, to the end of the run."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from typing import Any

from benchmarks.dagfiles import ASSET, consumer, stamps
from benchmarks.figures import Figure, percentile, spread
from benchmarks.poster import Poster
from benchmarks.system import Setup, System, emitting

WARM_UP = 3
TIMES = """
select r.run_id, r.start_event, extract(epoch from r.created_at)::float8 as created,
  extract(epoch from r.started_at)::float8 as started, extract(epoch from t.started_at)::float8 as claimed,
  extract(epoch from t.finished_at)::float8 as reported, extract(epoch from r.finished_at)::float8 as finished
from run r join dag d on d.id = r.dag_id join task t on t.run_id = r.id where d.dag_id = 'consumer'
"""


async def measure(setup: Setup) -> list[Figure]:
    figures = []
    for schedulers in setup.schedulers:
        figures += await _measure(setup, schedulers)
    return figures


async def _measure(setup: Setup, schedulers: int) -> list[Figure]:
    home, count = setup.folder / f"latency{schedulers}", setup.count(100, 10)
    async with emitting(home, {"consumer.py": consumer(home)}, schedulers=schedulers) as (system, emitter):
        await system.wait_for_dags("consumer")
        for _ in range(WARM_UP):
            await emitter.emit(ASSET)
        await system.wait_for_runs("consumer", WARM_UP)
        committed: dict[int, float] = {}
        for _ in range(count):
            await asyncio.sleep(random.uniform(0.15, 0.35))  # not in step with any poll
            (event,), at = await emitter.emit(ASSET)
            committed[event] = at
        await system.wait_for_runs("consumer", WARM_UP + count)
        posted = await _post(system, count)
        await system.wait_for_runs("consumer", WARM_UP + count + len(posted))
        by_event = {r["start_event"]: r for r in await system.sql.fetch(TIMES)}
        rows = [by_event[event] for event in committed]
    code = stamps(home)
    assert len(rows) == count == len({r["run_id"] for r in rows} & code.keys())
    variant = f"{schedulers} scheduler{'s' * (schedulers > 1)}"
    stages(setup, variant, rows, committed, code)

    def after_commit(what: str) -> list[float]:
        return [r[what] - committed[r["start_event"]] for r in rows]

    return [
        *spread("latency.event → run row", after_commit("created"), variant),
        *spread("latency.event → user code", [code[r["run_id"]] - committed[r["start_event"]] for r in rows], variant),
        *spread("latency.event → run done", after_commit("finished"), variant),
        *spread(
            "latency.POST sent → user code", [code[by_event[e]["run_id"]] - sent for e, sent in posted.items()], variant
        ),
    ]


async def _post(system: System, count: int) -> dict[int, float]:
    """Post events far apart: when each was sent."""
    poster, sent = Poster(system.home, system.address), {}
    for _ in range(count):
        await asyncio.sleep(random.uniform(0.15, 0.35))
        before = time.time()
        event, _seconds = await asyncio.to_thread(poster.post_one)
        sent[event] = before
    return sent


def stages(setup: Setup, variant: str, rows: list[Any], committed: dict[int, float], code: dict[str, float]) -> None:
    """Note where the time goes between the stages."""
    at = {
        "committed": [committed[r["start_event"]] for r in rows],
        "run row": [r["created"] for r in rows],
        "run started": [r["started"] for r in rows],
        "task claimed": [r["claimed"] for r in rows],
        "user code": [code[r["run_id"]] for r in rows],
        "attempt reported": [r["reported"] for r in rows],
        "run done": [r["finished"] for r in rows],
    }
    names = list(at)
    parts = []
    for earlier, later in itertools.pairwise(names):
        gaps = [b - a for a, b in zip(at[earlier], at[later], strict=True)]
        parts.append(f"{later} +{percentile(gaps, 50) * 1000:.1f} (p99 {percentile(gaps, 99) * 1000:.1f})")
    setup.note(f"latency, {variant}, ms after the stage before, median: {', '.join(parts)}")
