"""Tens of thousands of events that waited for a consumer, in one run: how long it takes, and how much memory."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks import processes
from benchmarks.dagfiles import ASSET
from benchmarks.emitter import Emitter
from benchmarks.figures import Figure
from benchmarks.system import Setup, System, emitting, until
from onceflow.store.dags import pause, unpause

EVENTS = 50_000
AT_ONCE = 2_500
GATHER = """
with DAG("gather", schedule={schedule}, consume=All()):
    EmptyOperator(task_id="work")
"""
SCHEDULES = {
    "all": "Asset(ASSET)",
    "filtered": 'Asset(ASSET).when("n", "exists") | Asset(ASSET + "2")',
}
MADE = """
select count(*) as runs, max(n) as members from (
  select count(*) as n from delivery y join run r on r.id = y.run_id join dag d on d.id = r.dag_id
  where d.dag_id = 'gather' group by r.id) x
"""
HELD = "select count(*) from delivery where disposition = 'held'"
BY = {"kind": "bench"}


async def measure(setup: Setup) -> list[Figure]:
    figures = []
    for name, schedule in SCHEDULES.items():
        figures += await _measure(setup, name, schedule)
    return figures


async def _measure(setup: Setup, name: str, schedule: str) -> list[Figure]:
    home, count = setup.folder / name, setup.count(EVENTS, 1000)
    imports = "from onceflow import DAG, All, Asset, EmptyOperator\n" + f"ASSET = {ASSET!r}\n"
    files = {"gather.py": imports + GATHER.format(schedule=schedule)}
    async with emitting(home, files, "--workers", "1", schedulers=1) as (system, emitter):
        await system.wait_for_dags("gather")
        await emitter.emit(ASSET, extra='{"n": 1}')
        await system.wait_for_runs("gather", 1)
        before = _peak(system, reset=True)
        await pause(emitter.database, "gather", by=BY)
        await _emit(emitter, count)
        await until(lambda: _held(system, count), 120, "all events to be held")
        await unpause(emitter.database, "gather", by=BY)
        began = time.monotonic()
        emitter.wake("delivery")
        await until(lambda: _made(system, count), 120, f"a run of {count} events", 0.005)
        seconds = time.monotonic() - began
        return [
            Figure(f"consume.{count:,} pending events in one run", seconds, "s", name),
            Figure("consume.scheduler's memory for it", _peak(system) - before, "MB", name),
        ]


async def _emit(emitter: Emitter, count: int) -> None:
    for done in range(0, count, AT_ONCE):
        await emitter.emit(ASSET, min(AT_ONCE, count - done), extra='{"n": 1}')


async def _held(system: System, count: int) -> bool:
    return await system.sql.fetchval(HELD) == count


async def _made(system: System, count: int) -> bool:
    row = await system.sql.fetchrow("select exists (select 1 from run where run_id <> '' offset 1) as made")
    if not row["made"]:
        return False
    made = await system.sql.fetchrow(MADE)
    if (made["runs"], made["members"]) != (2, count):
        raise RuntimeError(f"{made['runs']} runs, the largest of {made['members']} events")
    return True


def _peak(system: System, *, reset: bool = False) -> float:
    """The scheduler's memory at its highest since the last reset, or right now, in MB."""
    [pid] = [p for p in processes.tree(system.pid) if processes.kind(p) == "scheduler" and _is_child(p)]
    if reset:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6


def _is_child(pid: int) -> bool:
    """A role is a small parent and its child."""
    return not any(processes.kind(p) == "scheduler" for p in processes.tree(pid) if p != pid)
