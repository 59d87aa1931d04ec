"""One event to 100 consumers: how long until the last of them has its run, is in user code, is done."""

from __future__ import annotations

import statistics

from benchmarks.dagfiles import ASSET, consumers, stamps
from benchmarks.figures import Figure
from benchmarks.system import Setup, emitting, until

REPEATS = 5
DONE = "select count(*) from run where start_event = $1 and state in ('success', 'failed')"
RUNS = """
select run_id, state::text, extract(epoch from created_at)::float8 as created,
  extract(epoch from finished_at)::float8 as finished
from run where start_event = $1
"""


async def measure(setup: Setup) -> list[Figure]:
    figures = []
    for schedulers in setup.schedulers:
        figures += await _measure(setup, schedulers)
    return figures


async def _measure(setup: Setup, schedulers: int) -> list[Figure]:
    home, number = setup.folder / f"fanout{schedulers}", setup.count(100, 10)
    times: dict[str, list[float]] = {"last run row": [], "last user code": [], "last run done": []}
    async with emitting(home, {"consumers.py": consumers(home, number)}, schedulers=schedulers) as (system, emitter):
        await system.wait_for_dags(*(f"consumer_{n}" for n in range(number)))
        for repeat in range(REPEATS + 1):
            (event,), committed = await emitter.emit(ASSET)

            async def all_done(event: int = event) -> bool:
                return await system.sql.fetchval(DONE, event) == number

            await until(all_done, 120, f"{number} runs of one event")
            rows, code = await system.sql.fetch(RUNS, event), stamps(home)
            assert {r["state"] for r in rows} == {"success"}
            if repeat:
                times["last run row"].append(max(r["created"] for r in rows) - committed)
                times["last user code"].append(max(code[r["run_id"]] for r in rows) - committed)
                times["last run done"].append(max(r["finished"] for r in rows) - committed)
    variant = f"{number} consumers, {schedulers} scheduler{'s' * (schedulers > 1)}"
    return [Figure(f"fanout.{what}", statistics.median(v) * 1000, "ms", variant) for what, v in times.items()]
