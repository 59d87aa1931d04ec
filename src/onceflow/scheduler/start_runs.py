"""Starts queued runs in their order, as many as `max_active_runs` allows, counted under the DAG's lock."""

from __future__ import annotations

from collections import defaultdict

from onceflow.executors import notify_queued
from onceflow.model.states import TaskState
from onceflow.model.upstream import run_state
from onceflow.runtime.role import Role
from onceflow.runtime.service import SELDOM, Service
from onceflow.scheduler.advance_runs import decide
from onceflow.store import starts, tasks
from onceflow.store.versions import Versions

DAGS_PER_BATCH = 64


class StartRuns(Service):
    name = "start runs"
    topics = ("run",)
    poll = SELDOM
    pace = 0.012

    def __init__(self, role: Role, versions: Versions) -> None:
        self._role = role
        self._versions = versions

    async def run_once(self) -> bool:
        dags = await starts.find_startable(self._role.database, DAGS_PER_BATCH)
        if not dags:
            return False
        async with self._role.database.transaction() as tx:
            startable = await starts.claim_startable(tx, dags)
            if not startable:
                self.contended = True
                return False
            by_version: dict[int, list[int]] = defaultdict(list)
            for run in startable:
                by_version[run.version].append(run.run)
            ended = tasks.Advance()
            for version in (await self._versions.read(tx, by_version)).values():
                runs = by_version[version.id]
                waiting = dict.fromkeys(version.graph.order, TaskState.WAITING)
                states = waiting | decide(version, waiting, frozenset())
                await starts.start(tx, runs, version, states)
                state = run_state(version.graph, states)
                if state is not None:  # no task at all, or none that can run
                    ended.ended += [(run, state) for run in runs]
            if ended.ended:
                await tasks.advance(tx, ended)
        notify_queued(self._role.wakeups)
        if ended.ended:
            self._role.wakeups.wake("run")
        return True
