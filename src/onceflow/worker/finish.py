"""Hands over how attempts ended, all reports in line at once; and renews the leases of those under way."""

from __future__ import annotations

import asyncio
import json

from onceflow.executors.base import Executor
from onceflow.model.errors import InputError, NotFoundError
from onceflow.model.states import Outcome, TaskState
from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.runtime.service import Service
from onceflow.store.database import BAD_DATA
from onceflow.store.tasks import Report
from onceflow.worker.host import Guests

REPORTS_PER_BATCH = 100
REFUSALS = (*BAD_DATA, NotFoundError, InputError)

log = get_logger("onceflow.worker")


class FinishAttempts(Service):
    """A report stays in line until its answer is known, so a lost connection neither loses nor doubles it."""

    name = "finish attempts"
    topics = ("finished",)
    pace = 0.003

    def __init__(self, role: Role, guests: Guests, executor: Executor) -> None:
        self._role = role
        self._guests = guests
        self._executor = executor

    async def run_once(self) -> bool:
        batch = self._guests.reports[:REPORTS_PER_BATCH]
        if not batch:
            return False
        crash_point("worker.finish.before")
        try:
            await self._store(batch)
        except REFUSALS:
            await self._store_one_by_one(batch)
        crash_point("worker.finish.after_commit")
        del self._guests.reports[: len(batch)]
        self.more, self.handled = bool(self._guests.reports), len(batch)
        topics = {"finish"} | ({"delivery"} if any(r.changes for r in batch) else set())
        if any(r.state is TaskState.QUEUED for r in batch):
            topics.add("task")
        self._role.wakeups.notify(*topics)
        for finished in batch:
            if finished.retry_seconds is not None:  # a glance once a second finds it too, should we be gone by then
                asyncio.get_running_loop().call_later(finished.retry_seconds, self._role.wakeups.notify, "finish")
        return True

    async def _store(self, batch: list[Report]) -> None:
        for finished, status in zip(batch, await self._executor.finish(batch), strict=True):
            if status == "fenced":
                log.warning("report came too late", task=finished.task, attempt=finished.attempt)

    async def _store_one_by_one(self, batch: list[Report]) -> None:
        """Something that the database refuses: find the report it is in, and fail that attempt with the reason."""
        for finished in batch:
            try:
                await self._store([finished])
            except REFUSALS as reason:
                await self._store([refused(finished, reason)])


class RenewTasks(Service):
    """Renews the leases of exactly the attempts under way; kills those that are no longer ours."""

    name = "renew tasks"

    def __init__(self, role: Role, guests: Guests, executor: Executor) -> None:
        self._guests = guests
        self._executor = executor
        self.poll = role.settings.renew_seconds

    async def run_once(self) -> bool:
        held = [(g.task.id, g.task.token) for g in self._guests.running.values() if not g.reported]
        if held:
            crash_point("worker.renew.before")
        kept = await self._executor.renew(held)
        if held:
            crash_point("worker.renew.after_commit")
        for task, token in held:
            if task not in kept:
                self._guests.kill_fenced(token)
        return False


def refused(finished: Report, reason: Exception) -> Report:
    """The attempt failed: what it reported cannot be stored."""
    log.error("result refused", task=finished.task, error=str(reason))
    error = json.dumps({"type": type(reason).__name__, "message": f"the result was refused: {reason}", "traceback": ""})
    return Report(finished.task, finished.attempt, finished.token, TaskState.FAILED, Outcome.FAILED, error=error)


async def finish_all(service: FinishAttempts, guests: Guests, seconds: float) -> None:
    """Hand over what is still in line, for at most so many seconds."""
    async with asyncio.timeout(seconds):
        while guests.reports:
            await service.run_once()
