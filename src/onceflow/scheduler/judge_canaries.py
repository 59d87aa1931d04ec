"""Judges the synthetic changes of watchers, so that their delay is that of a change which would make a run."""

from __future__ import annotations

from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.role import Role
from onceflow.runtime.service import SELDOM, Service
from onceflow.store import watchers


class JudgeCanaries(Service):
    name = "judge canaries"
    topics = ("canary",)
    poll = SELDOM

    def __init__(self, role: Role) -> None:
        self._role = role

    async def run_once(self) -> bool:
        crash_point("scheduler.canaries.before")
        judged, self.contended = await watchers.judge_canaries(self._role.database)
        if judged:
            crash_point("scheduler.canaries.after_commit")
        return judged > 0
