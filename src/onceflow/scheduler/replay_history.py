"""Delivers stored history to new consumers that asked for it, a step at a time, so that no asset is locked for long."""

from __future__ import annotations

from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.role import Role
from onceflow.runtime.service import SELDOM, Service
from onceflow.store import history

SUBSCRIPTIONS_PER_BATCH = 10


class ReplayHistory(Service):
    name = "replay history"
    topics = ("catch_up",)
    poll = SELDOM

    def __init__(self, role: Role) -> None:
        self._role = role

    async def run_once(self) -> bool:
        found = await history.find(self._role.database, SUBSCRIPTIONS_PER_BATCH)
        for asset, dag in found:
            crash_point("scheduler.history.before")
            await history.catch_up(self._role.database, asset, dag)
            crash_point("scheduler.history.after_commit")
        if found:
            self._role.wakeups.wake("delivery")
        return bool(found)
