"""Many events of one asset at once, one run for each: runs per second, and where the CPU time goes."""

from __future__ import annotations

from benchmarks.dagfiles import ASSET, consumer
from benchmarks.figures import Figure
from benchmarks.processes import spent, total
from benchmarks.system import Setup, emitting

BATCH = 100
WARM_UP = 20
SPAN = """
select extract(epoch from max(r.finished_at) - min(e.created_at))::float8 as seconds, count(*) as runs,
  extract(epoch from max(r.created_at) - min(e.created_at))::float8 as creating
from run r join dag d on d.id = r.dag_id join event e on e.id = r.start_event
where d.dag_id = 'consumer' and e.id = any ($1)
"""


async def measure(setup: Setup) -> list[Figure]:
    figures = []
    for schedulers in setup.schedulers:
        figures += await _measure(setup, schedulers)
    return figures + await _measure(setup, max(setup.schedulers), 64)


async def _measure(setup: Setup, schedulers: int, max_active_runs: int = 0) -> list[Figure]:
    """The figures for so many schedulers; `max_active_runs` 0: the default. CPU per run depends less on other load."""
    variant = f"{schedulers} scheduler{'s' * (schedulers > 1)}"
    options = f", max_active_runs={max_active_runs}" if max_active_runs else ""
    variant += options
    home, count = setup.folder / f"burst{schedulers}_{max_active_runs}", setup.count(2000, 100)
    files = {"consumer.py": consumer(home, options=options)}
    async with emitting(home, files, schedulers=schedulers) as (system, emitter):
        await system.wait_for_dags("consumer")
        await emitter.emit(ASSET, WARM_UP)
        await system.wait_for_runs("consumer", WARM_UP)
        before, events = await system.cpu(), []
        for _ in range(0, count, BATCH):
            ids, _at = await emitter.emit(ASSET, BATCH)
            events += ids
        await system.wait_for_runs("consumer", WARM_UP + len(events), every=0.1)
        used = spent(before, await system.cpu())
        row = await system.sql.fetchrow(SPAN, events)
    assert row["runs"] == len(events)
    lines = [
        f"  {name:32} {c.user:6.2f} {c.system:6.2f} {c.total / row['runs'] * 1000:8.2f}"
        for name, c in used.items()
        if c.total >= 0.01
    ]
    heading = f"burst, {variant}: {row['runs']} runs in {row['seconds']:.2f} s (all rows after {row['creating']:.2f} s)"
    share = f"{total(used) / row['seconds'] * 100:.0f} % of a core"
    setup.note("\n".join([f"{heading}, {share}; CPU s user, system, ms per run:", *lines]))
    name = "burst.runs, wide" if max_active_runs else "burst.runs"
    return [
        Figure(name, row["runs"] / row["seconds"], "runs/s", variant),
        Figure("burst.cpu per run", total(used) / row["runs"] * 1000, "ms", variant),
    ]
