"""Claims queued tasks while there are free slots, and starts a guest for each."""

from __future__ import annotations

from onceflow.executors.base import Executor
from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.role import Role
from onceflow.runtime.service import Service
from onceflow.store.versions import Versions
from onceflow.worker.host import Guests


class ClaimTasks(Service):
    name = "claim tasks"
    topics = ("task",)
    pace = 0.003

    def __init__(self, role: Role, guests: Guests, executor: Executor) -> None:
        self._role = role
        self._guests = guests
        self._executor = executor
        self._versions = Versions()

    async def run_once(self) -> bool:
        free = self._guests.free
        if free <= 0 or self._role.stop.is_set():
            return False
        crash_point("worker.claim.before")
        claimed = await self._executor.claim(free)
        self.more, self.handled = False, len(claimed)
        self._guests.saturated = len(claimed) == free
        if not claimed:
            return False
        crash_point("worker.claim.after_commit")
        versions = await self._versions.read(self._role.database, {t.version for t in claimed})
        for task in claimed:
            self._guests.launch(task, versions[task.version])
        crash_point("worker.claim.launched")
        return True
