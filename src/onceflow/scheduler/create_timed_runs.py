"""Turns due slots into runs. There is no leader: the slot's row is unique, and whoever comes first writes it."""

from __future__ import annotations

from collections import Counter

from onceflow.executors import notify_queued
from onceflow.model.timetable import Due, due
from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.runtime.service import SELDOM, Service
from onceflow.scheduler.start_runs import start_startable, tell_started
from onceflow.store import timed
from onceflow.store.timed import DueDag
from onceflow.store.versions import Version, Versions

log = get_logger("onceflow.scheduler")

DAGS_PER_BATCH = 100


class CreateTimedRuns(Service):
    """Cron, interval and once."""

    name = "create timed runs"
    topics = ("dag",)

    def __init__(self, role: Role, versions: Versions) -> None:
        self._role = role
        self._versions = versions
        self._told: set[int] = set()

    async def run_once(self) -> bool:
        dags = await timed.find_due(self._role.database, DAGS_PER_BATCH)
        if not dags:
            self.poll = await self._seconds_to_next()
            return False
        async with self._role.database.transaction() as tx:
            claimed = await timed.claim_due(tx, dags)
            versions = await self._versions.read(tx, {d.version for d in claimed})
            slots, following = [], []
            for dag in claimed:
                found = self._due(dag, versions.get(dag.version))
                if found is not None:
                    slots += [(dag.dag, slot) for slot in found.slots]
                    following.append((dag.dag, found.next_at))
            created = await timed.create(tx, self._role.id, slots, following)
            started = (
                await start_startable(tx, self._versions, {dag for dag, _ in slots}) if created else Counter[int]()
            )
            crash_point("scheduler.timed.before_commit")
        crash_point("scheduler.timed.after_commit")
        tell_started(self._role.wakeups, started)
        return bool(following)

    def _due(self, dag: DueDag, version: Version | None) -> Due | None:
        """What is to run; None if that cannot be said of this DAG, which keeps no other from its slots."""
        try:
            if version is None:
                raise ValueError(self._versions.unreadable.get(dag.version, f"there is no version {dag.version}"))
            spec = version.spec
            return due(
                spec.schedule,
                next_at=dag.next_slot_at,
                now=dag.now,
                anchor=dag.anchor_at or dag.next_slot_at,
                catchup=spec.catchup,
                end_date=spec.end_date,
            )
        except Exception as error:
            if dag.version not in self._told:
                self._told.add(dag.version)
                log.error("no slots for this DAG", dag=dag.dag, version=dag.version, error=str(error))
            return None

    async def _seconds_to_next(self) -> float:
        seconds = await timed.seconds_to_next(self._role.database)
        limit = SELDOM
        return limit if seconds is None else min(limit, max(0.001, seconds))


class CreateContinuousRuns(Service):
    """The next run of each @continuous DAG as soon as the one before has ended."""

    name = "create continuous runs"
    topics = ("dag",)
    rest = 0.01
    poll = SELDOM

    def __init__(self, role: Role, versions: Versions | None = None) -> None:
        self._role = role
        self._versions = versions or Versions()

    async def run_once(self) -> bool:
        dags = await timed.find_continuous(self._role.database, DAGS_PER_BATCH)
        if not dags:
            return False
        async with self._role.database.transaction() as tx:  # a pause comes before or after, never in between
            created = await timed.create_continuous(tx, self._role.id, dags)
            started = await start_startable(tx, self._versions, dags) if created else None
            crash_point("scheduler.continuous.before_commit")
        crash_point("scheduler.continuous.after_commit")
        if not created:
            self.contended = True
            return False
        if started:
            notify_queued(self._role.wakeups)
        else:
            self._role.wakeups.wake("run")
        return True
