"""Every boundary of every transaction, in a table: killed there, frozen past the lease and resumed, cut off there.

Afterwards each change has its one run, and `verify` finds nothing. The points are armed a few at a time in one running
system, some of each role, while changes come in by every entrance.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path

import httpx
import pytest
from trial import Trial

from onceflow.model.times import from_rfc3339
from support import SOURCE, eventually
from system import System

POINTS: Mapping[str, str] = {
    "api-server.begin.before": "the request is not known; the client sends again",
    "api-server.begin.after_commit": "the request is noted, nothing is done; sent again it is done",
    "api-server.emit.before": "nothing is stored; the client sends again",
    "api-server.emit.after_commit": "stored, the client does not know; sent again it is the same change",
    "api-server.trigger.before": "nothing is stored; the client sends again",
    "api-server.trigger.after_commit": "the run is there, the client does not know; sent again it is the same run",
    "api-server.answer.before": "done, and the answer is not kept; sent again it is done no second time",
    "api-server.answer.after_commit": "the answer is kept; sent again it is given again",
    "api-server.forget.before": "refused, and the request is still noted; sent again it is refused again",
    "api-server.forget.after_commit": "refused and forgotten; its key is free",
    "api-server.intervene.before": "nothing is done of what a person wants; the client sends again",
    "api-server.intervene.after_commit": "done and recorded, nobody was told; polls find it",
    "dag-processor.add.before": "the file is not known; the next scan finds it",
    "dag-processor.add.after_commit": "the file is known and not registered; the next scan registers it",
    "dag-processor.register.before": "the file is as it was; the next scan registers it",
    "dag-processor.register.after_commit": "registered, nobody was told; polls find it",
    "dag-processor.fail.before": "the file is as it was; the next scan loads it again",
    "dag-processor.fail.after_commit": "the failure is shown, and what the file declared goes on",
    "dag-processor.remove.before": "the file is gone and its DAGs are not; the next scan removes them",
    "dag-processor.remove.after_commit": "its DAGs are removed, nobody was told; polls find it",
    "role.register.before": "nobody knows of the process; its parent starts another one",
    "role.register.after_commit": "a process that does nothing; its parent buries it, or its lease runs out",
    "role.renew.before": "the lease is as it was; others take over when it is out",
    "role.renew.after_commit": "the lease is renewed, the process does not know; others take over when it is out",
    "role.sign_off.before": "stopped, and nobody knows; its parent buries it, or its lease runs out",
    "role.sign_off.stopped": "signed off, what it owned is not released; taken over, as its owner is not ready",
    "role.sign_off.after_commit": "released, nobody was told; polls find it",
    "scheduler.consume.locked": "consumers are locked and read; others go on when the locks are gone",
    "scheduler.consume.judged": "runs are written, uncommitted; gone, and made by another scheduler",
    "scheduler.consume.before_commit": "runs are started, uncommitted; gone, and made by another scheduler",
    "scheduler.consume.after_commit": "runs are there and started, workers were not told; they look themselves",
    "scheduler.start.before_commit": "tasks are written, uncommitted; gone, and started by another scheduler",
    "scheduler.start.after_commit": "started, workers were not told; they look themselves",
    "scheduler.advance.locked": "runs are locked and read; others go on when the locks are gone",
    "scheduler.advance.before_commit": "tasks and ends of runs are uncommitted; gone, and drawn by another scheduler",
    "scheduler.advance.after_commit": "drawn, nobody was told; polls find it",
    "scheduler.timed.before_commit": "slots are written, uncommitted; gone, and written by another scheduler",
    "scheduler.timed.after_commit": "slots are there; another scheduler starts them",
    "scheduler.continuous.before_commit": "the next run is uncommitted; gone, and made by another scheduler",
    "scheduler.continuous.after_commit": "the next run is there, workers were not told; they look themselves",
    "scheduler.history.before": "the history is not delivered; another scheduler delivers it",
    "scheduler.history.after_commit": "a part of the history is delivered; another scheduler goes on with the rest",
    "scheduler.release.before": "the next of what a storm held is held still; another scheduler releases it",
    "scheduler.release.after_commit": "one more is released, the time of the next is stored; another scheduler goes on",
    "scheduler.canaries.before": "synthetic changes wait; another scheduler judges them",
    "scheduler.canaries.after_commit": "judged, and nobody has to know",
    "scheduler.expire.before": "the run is over its time; another scheduler ends it",
    "scheduler.expire.after_commit": "ended, nobody was told; polls find it, and its worker renews nothing more",
    "scheduler.bury.before": "a process is silent; another scheduler declares it dead",
    "scheduler.bury.declared": "declared dead, what it owned is not released; taken over, as its owner is not ready",
    "scheduler.bury.after_commit": "a dead process's watchers are free, nobody was told; polls find them",
    "scheduler.rescue.before": "tasks of the dead wait; another scheduler queues them again",
    "scheduler.rescue.after_commit": "tasks are queued again, workers were not told; they look themselves",
    "scheduler.prune.before": "what is old is there still; another scheduler prunes it",
    "scheduler.prune.after_commit": "a step of it is gone as a whole; another scheduler goes on",
    "scheduler.prune_processes.before": "rows of processes long dead are there still; pruned at the next start",
    "scheduler.prune_processes.after_commit": "they are gone, and nobody has to know",
    "triggerer.claim.before": "nothing is owned; another triggerer claims",
    "triggerer.claim.after_commit": "owned, but nobody watches; taken over when the lease is out",
    "triggerer.join.before": "it does not watch; others do",
    "triggerer.join.after_commit": "it is said to watch, and does not; others do, and its row goes when it is buried",
    "triggerer.deliver.before": "told by the trigger, not stored; the next owner is told again",
    "triggerer.deliver.after_commit": "stored with the cursor, the trigger was not told; the next owner goes on",
    "triggerer.observe.before": "it looked, and that is not stored; the next look is",
    "triggerer.observe.after_commit": "stored; the next owner's looks are, too",
    "triggerer.compare.after_read": "it knows what it owns; the next owner waits for the lease",
    "triggerer.release.before": "stopped, but owned; taken over when the lease is out",
    "triggerer.release.after_commit": "released, nobody was told; another triggerer looks itself",
    "triggerer.fail.before": "failed, but owned and without a strike; taken over when the lease is out",
    "triggerer.fail.after_commit": "a strike is stored; whoever claims it next waits for its back-off",
    "triggerer.pause.before": "came to its end, but owned; taken over when the lease is out",
    "triggerer.pause.after_commit": "to be started again in a second; another triggerer does",
    "triggerer.trip.before": "it tells too much, and that is not stored; the next owner counts anew",
    "triggerer.trip.after_commit": "in a storm, nobody was told; nobody runs it until a person releases it",
    "triggerer.canary.before": "a synthetic change is not stored; there will be another",
    "triggerer.canary.after_commit": "stored, nobody was told; a scheduler's glance finds it",
    "worker.claim.before": "nothing is taken; another worker takes it",
    "worker.claim.after_commit": "attempts are opened, no guest runs; lost, and tried again",
    "worker.claim.launched": "guests run; they die with the worker, and are tried again",
    "worker.xcom.before": "the value is not stored; the attempt is lost, and tried again",
    "worker.xcom.after_commit": "the value is stored; the attempt is lost, and the next one writes its own",
    "worker.finish.before": "ended, not stored; lost, and tried again",
    "worker.finish.after_commit": "stored, the worker does not know; what it sends again is answered again",
    "worker.renew.before": "not renewed; rescued when the lease is out",
    "worker.renew.after_commit": "renewed; rescued when the lease is out",
}
"""Each point, and what is known when a process ends there."""

DEEDS = ("kill", "freeze", "cut")
LEFT_OUT = (("freeze", 0), ("cut", 1))
AT_ONCE = {"scheduler": 4, "triggerer": 3, "api-server": 2, "dag-processor": 2, "worker": 2}
"""How many points of a role are armed at once."""
READY = re.compile(r"^ready (\S+)$", re.MULTILINE)


def trials() -> list[tuple[str, int]]:
    """Deeds, each with a half of the rounds, as a system starts those that die often later and later.

    All of them with CRASH_POINTS=all, as `make chaos` has it; else of the deeds that do not kill only one half.
    """
    both = [(deed, half) for deed in DEEDS for half in (0, 1)]
    return both if os.environ.get("CRASH_POINTS") == "all" else [t for t in both if t not in LEFT_OUT]


def rounds() -> list[list[str]]:
    """Points to arm at once: some of each role."""
    columns = []
    for role in dict.fromkeys(p.partition(".")[0] for p in POINTS):
        of_role = [p for p in POINTS if p.startswith(role + ".")]
        count = AT_ONCE.get(role, 1)
        columns += [of_role[n::count] for n in range(count)]
    return [[p for p in points if p] for points in zip_longest(*columns)]


def test_every_point_is_in_the_table() -> None:
    """A point nobody tests fails the build, and so does a row for a point that is gone."""
    sources = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    named = re.findall(r'crash_point\("([^"]+)"\)', sources)
    assert sorted(named) == sorted(POINTS)
    assert sources.count("crash_point(") == len(named) + 1, "a point's name is written out where it is"


@pytest.mark.parametrize(("deed", "half"), trials())
async def test_a_process_that_ends_anywhere_neither_loses_nor_doubles(
    tmp_path: Path, database_url: str, deed: str, half: int
) -> None:
    """apache/airflow#54491, argo-events#850, dbos#733, hatchet#4129, flyte#6577: at each labelled point."""
    points = tmp_path / "points"
    points.mkdir()
    shutil.copy(Path(__file__).with_name("deeds.py"), points)
    system = System(
        tmp_path, database_url, schedulers=4, triggerers=3, workers=2, crash_points=points / "deeds.py", scan_seconds=1
    )
    async with system:
        await Trial.prepare(system, points)
        said = await eventually(lambda: READY.search(system.output.read_text()), why="the API server serves")
        headers = {"Authorization": f"Bearer {(system.home / 'token').read_text().strip()}"}
        async with httpx.AsyncClient(base_url=said[1], headers=headers, timeout=2) as client:
            trial = Trial(system, points, client)
            for together in rounds()[half::2]:
                await trial.endure(together, deed)
        ticks = await system.runs("ticks")
        slots = [from_rfc3339(r["logical_date"], "slot") for r in ticks]
        assert slots == [slots[0] + timedelta(seconds=n) for n in range(len(slots))]
        await system.verify()
