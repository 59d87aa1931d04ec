"""One chaos run from beginning to end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from onceflow.chaos.changes import Changes
from onceflow.chaos.faults import Striker
from onceflow.chaos.installation import Installation, installation
from onceflow.chaos.plan import Faults, plan
from onceflow.chaos.report import Report
from onceflow.config import Settings
from onceflow.model.clock import boot_seconds
from onceflow.queries.verify import verify

SETTLE_SECONDS = 120.0
SETTLED_LOOKS = 3
ASKED_AT_ONCE = 5000
DOUBLED = frozenset({"two_events_of_one_change", "two_runs_of_one_event", "two_runs_of_one_slot"})


async def run(settings: Settings, *, seed: int, seconds: float, events: int, faults: Faults) -> Report:
    """Let an installation of these settings (numbers of roles, DAG folder, lease) suffer for so many seconds.

    Changes are emitted on every asset that the DAG files name, but where only a watcher may tell them. Raises
    UnreachableError if it does not start.
    """
    async with installation(settings) as running:
        rows = await running.direct.fetch("chaos/assets")
        assets = [r["name"] for r in rows if not r["closed"]]
        broken = [r["path"] for r in await running.direct.fetch("files/errors", None)]
        changes, striker = Changes(running, assets, seed), Striker(running, seed)
        began = boot_seconds()
        async with asyncio.TaskGroup() as group:
            group.create_task(changes.run(events, seconds))
            group.create_task(striker.run(plan(seed, faults, seconds)))
        unsettled = await _settle(running)
        took = boot_seconds() - began
        lost = await _lost(running, changes.told)
        found = await running.patiently(lambda: verify(running.direct))
        numbers = await running.direct.fetchrow("chaos/numbers")
        return Report(
            seed=seed,
            seconds=took,
            broken=broken,
            left_alone=[r["name"] for r in rows if r["closed"]],
            sightings=changes.sightings,
            changes=len(set(changes.told)),
            events=found["events"],
            runs=found["runs"],
            struck=dict(striker.struck),
            inside=striker.inside,
            lost=lost,
            doubled=sum(v["kind"] in DOUBLED for v in found["violations"]),
            unsettled=unsettled,
            longest_gap=await running.direct.fetchval("chaos/longest_gap") or 0.0,
            numbers=dict(numbers) if numbers is not None else {},
            failover={kind: times.as_dict() for kind, times in striker.failover.times.items()},
            violations=found["violations"],
        )


async def _settle(running: Installation) -> int:
    """Wait until nothing is to be judged, started or run, seen several times; how much still is at the end."""
    give_up, quiet, left = boot_seconds() + SETTLE_SECONDS, 0, 0
    while boot_seconds() < give_up and quiet < SETTLED_LOOKS:
        left = await running.patiently(lambda: running.direct.fetchval("chaos/unsettled"))
        quiet = 0 if left else quiet + 1
        await asyncio.sleep(0.2)
    return left


async def _lost(running: Installation, told: Sequence[tuple[str, str]]) -> int:
    lost = 0
    known = sorted(set(told))
    for begin in range(0, len(known), ASKED_AT_ONCE):
        assets, keys = zip(*known[begin : begin + ASKED_AT_ONCE], strict=True)
        lost += await running.direct.fetchval("chaos/lost", list(assets), list(keys))
    return lost
