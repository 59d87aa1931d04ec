"""Gives back what a storm held, so many events a minute, where a person asked for that."""

from __future__ import annotations

from functools import partial

from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.role import Role
from onceflow.runtime.service import SELDOM, Service
from onceflow.scheduler.alarm import Alarm
from onceflow.store import storms

DAGS_PER_BATCH = 64


class ReleaseSlowly(Service):
    name = "release slowly"
    topics = ("release",)
    poll = SELDOM

    def __init__(self, role: Role) -> None:
        self._role = role
        self._alarm = Alarm(partial(role.wakeups.wake, "release"))

    async def run_once(self) -> bool:
        dags = await storms.find_releasing(self._role.database, DAGS_PER_BATCH)
        waits: dict[int, float | None] = {}
        for dag in dags:
            crash_point("scheduler.release.before")
            waits[dag] = await storms.release_slowly(self._role.database, dag)
            crash_point("scheduler.release.after_commit")
        self._alarm.set(waits, {dag: seconds for dag, seconds in waits.items() if seconds is not None})
        if dags:
            self._role.wakeups.wake("delivery")
        return any(seconds is not None for seconds in waits.values())
