"""Starts queued runs in their order, as many as `max_active_runs` allows, counted under the DAG's lock.

`start_startable` is also called where runs were just created or have ended, in the same transaction; the service
finds what those could not start because somebody else held the DAG.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from onceflow.executors import notify_queued
from onceflow.model.states import TaskState
from onceflow.model.upstream import run_state
from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.role import Role
from onceflow.runtime.service import SELDOM, Service
from onceflow.runtime.wakeups import Wakeups
from onceflow.scheduler.decide import decide
from onceflow.scheduler.turn import Turn
from onceflow.store import starts, tasks
from onceflow.store.database import Connection
from onceflow.store.starts import Startable
from onceflow.store.versions import Versions

DAGS_PER_BATCH = 64


async def start_startable(tx: Connection, versions: Versions, dags: Collection[int]) -> Counter[int]:
    """Start the runs of these DAGs that may start now; returns how many of each. One that somebody else holds is left.

    It never waits for a DAG's lock, so it may be called by who holds locks that come later in the order.
    """
    startable = await starts.claim_startable(tx, sorted(dags))
    by_version: dict[int, list[Startable]] = defaultdict(list)
    for run in startable:
        by_version[run.version].append(run)
    empty, started = tasks.Advance(), Counter[int]()
    for version in (await versions.read(tx, by_version)).values():
        runs = [r.run for r in by_version[version.id]]
        waiting = dict.fromkeys(version.graph.order, TaskState.WAITING)
        states = waiting | decide(version, waiting, frozenset())
        await starts.start(tx, runs, version, states)
        started.update(r.dag for r in by_version[version.id])
        state = run_state(version.graph, states)
        if state is not None:  # no task at all, or none that can run
            empty.ended += [(run, state) for run in runs]
    if empty.ended:
        await tasks.advance(tx, empty)
    return started


def tell_started(wakeups: Wakeups, started: Counter[int]) -> None:
    """Tell the workers of runs that `start_startable` has started, and the start of the rest if there may be more."""
    if started:
        notify_queued(wakeups)
    if starts.RUNS_PER_DAG in started.values():
        wakeups.wake("run")


class StartRuns(Service):
    name = "start runs"
    topics = ("run",)
    poll = SELDOM
    pace = 0.012
    rest = 0.01

    def __init__(self, role: Role, versions: Versions) -> None:
        self._role = role
        self._versions = versions
        self._turn = Turn(DAGS_PER_BATCH)

    async def run_once(self) -> bool:
        dags = await starts.find_startable(self._role.database, DAGS_PER_BATCH, self._turn.after)
        if self._turn.over(dags):
            return False
        async with self._role.database.transaction() as tx:
            started = await start_startable(tx, self._versions, dags)
            crash_point("scheduler.start.before_commit")
        crash_point("scheduler.start.after_commit")
        self.contended, self.handled = not started, started.total()
        self.more = len(dags) == DAGS_PER_BATCH or starts.RUNS_PER_DAG in started.values()
        if not started:
            return False
        notify_queued(self._role.wakeups)
        return True
