"""Draws the consequences of ended tasks: which may go next, within `max_active_tasks`, and which runs are over."""

from __future__ import annotations

import asyncio
from collections import Counter

from onceflow.executors import notify_queued
from onceflow.model.dagspec import AssetSchedule, ContinuousSchedule
from onceflow.model.states import TaskState
from onceflow.model.upstream import run_state
from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.role import Role
from onceflow.runtime.service import SELDOM, Service
from onceflow.scheduler.decide import decide
from onceflow.scheduler.start_runs import start_startable
from onceflow.store import starts, tasks
from onceflow.store.tasks import Advance, RunTasks
from onceflow.store.versions import Version, Versions


class AdvanceRuns(Service):
    name = "advance runs"
    topics = ("finish",)
    poll = SELDOM
    pace = 0.006

    def __init__(self, role: Role, versions: Versions) -> None:
        self._role = role
        self._versions = versions
        self._seen: set[int] = set()

    async def run_once(self) -> bool:
        runs = self._ripe(await tasks.find_unsettled(self._role.database))
        if not runs:
            return False
        async with self._role.database.transaction() as tx:
            claimed = await tasks.claim_of_runs(tx, runs)
            self.contended, self.more = len(claimed) < len(runs), len(runs) == tasks.RUNS_PER_BATCH
            self.handled = len(claimed)
            if not claimed:
                return False
            crash_point("scheduler.advance.locked")
            versions = await self._versions.read(tx, {r.version for r in claimed})
            claimed = [r for r in claimed if r.version in versions]
            advance = Advance()
            for run in claimed:
                add(advance, run, versions[run.version])
            await tasks.advance(tx, advance)
            ended = {run for run, _ in advance.ended}
            room_in = {r.dag for r in claimed if r.run in ended}
            started = await start_startable(tx, self._versions, room_in) if room_in else Counter[int]()
            crash_point("scheduler.advance.before_commit")
        crash_point("scheduler.advance.after_commit")
        if started or any(new is TaskState.QUEUED for _, _, new in advance.changes):
            notify_queued(self._role.wakeups)
        if room_in - started.keys() or starts.RUNS_PER_DAG in started.values():
            self._role.wakeups.wake("run")  # nothing was waiting, or somebody held the DAG, or there is more
        self._role.wakeups.wake(*{t for r in claimed if r.run in ended for t in waits_for_end(versions[r.version])})
        return bool(claimed)

    def _ripe(self, runs: list[int]) -> list[int]:
        """What is for us: all of it, or if another scheduler comes first, what it has left since our last look."""
        patience = self._role.wakeups.patience
        if not patience:
            return runs
        ripe, self._seen = [r for r in runs if r in self._seen], set(runs)
        if runs and not ripe:
            asyncio.get_running_loop().call_later(patience, self._role.wakeups.wake, "finish")
        return ripe


def waits_for_end(version: Version) -> tuple[str, ...]:
    """What is to be woken when a run of this DAG has ended, beside the start of those that are queued."""
    match version.spec.schedule:
        case ContinuousSchedule():
            return ("dag",)
        case AssetSchedule(policy="latest"):
            return ("delivery",)
        case _:
            return ()


def add(advance: Advance, run: RunTasks, version: Version) -> None:
    """Add to `advance` what is to be done for one run."""
    advance.settled += run.unsettled
    if not run.running:
        return
    changes = decide(version, run.states, run.due)
    advance.changes += [(run.ids[t], run.states[t], new) for t, new in changes.items()]
    state = run_state(version.graph, run.states | changes)
    if state is not None:
        advance.ended.append((run.run, state))
