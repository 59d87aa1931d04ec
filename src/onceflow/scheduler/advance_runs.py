"""Draws the consequences of ended tasks: which may go next, within `max_active_tasks`, and which runs are over."""

from __future__ import annotations

from collections.abc import Mapping

from onceflow.executors import notify_queued
from onceflow.model.states import TaskState
from onceflow.model.upstream import plan, run_state
from onceflow.runtime.role import Role
from onceflow.runtime.service import SELDOM, Service
from onceflow.store import tasks
from onceflow.store.tasks import Advance, RunTasks
from onceflow.store.versions import Version, Versions


def decide(version: Version, states: Mapping[str, TaskState], due: frozenset[str]) -> dict[str, TaskState]:
    """The new states of a run's tasks; `due` are those to be tried again.

    Ready tasks are queued by priority, then in topological order, while fewer than `max_active_tasks` of the run are
    queued or running.
    """
    known = dict(states) | dict.fromkeys(due, TaskState.READY)
    changed = dict.fromkeys(due, TaskState.READY) | plan(version.graph, known)
    known |= changed
    room = version.spec.max_active_tasks - sum(s.active for s in known.values())
    ready = [t for t in version.graph.order if known[t] is TaskState.READY]
    ready.sort(key=lambda t: -version.graph.tasks[t].priority_weight)
    return changed | dict.fromkeys(ready[: max(0, room)], TaskState.QUEUED)


class AdvanceRuns(Service):
    name = "advance runs"
    topics = ("finish",)
    poll = SELDOM
    pace = 0.008

    def __init__(self, role: Role, versions: Versions) -> None:
        self._role = role
        self._versions = versions

    async def run_once(self) -> bool:
        runs = await tasks.find_unsettled(self._role.database)
        if not runs:
            return False
        async with self._role.database.transaction() as tx:
            claimed = await tasks.claim_of_runs(tx, runs)
            if not claimed:
                self.contended = True
                return False
            versions = await self._versions.read(tx, {r.version for r in claimed})
            advance = Advance()
            for run in claimed:
                add(advance, run, versions[run.version])
            await tasks.advance(tx, advance)
        if any(new is TaskState.QUEUED for _, _, new in advance.changes):
            notify_queued(self._role.wakeups)
        if advance.ended:
            self._role.wakeups.wake("run")
        return True


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
