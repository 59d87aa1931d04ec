"""Stores how attempts ended: all reports in line, in one transaction; and renews the leases of those under way."""

from __future__ import annotations

import asyncio

import structlog

from onceflow.model.errors import NotFoundError
from onceflow.model.states import Outcome, TaskState
from onceflow.runtime.role import Role
from onceflow.runtime.service import Service
from onceflow.store import tasks
from onceflow.store.database import BAD_DATA
from onceflow.store.events import asset_ids
from onceflow.store.tasks import Report
from onceflow.worker.host import Guests

REPORTS_PER_BATCH = 100

log = structlog.get_logger("onceflow.worker")


class FinishAttempts(Service):
    """A report stays in line until its answer is known, so a lost connection neither loses nor doubles it."""

    name = "finish attempts"
    topics = ("finished",)
    pace = 0.004

    def __init__(self, role: Role, guests: Guests) -> None:
        self._role = role
        self._guests = guests
        self._assets: dict[str, int] = {}

    async def run_once(self) -> bool:
        batch = self._guests.reports[:REPORTS_PER_BATCH]
        if not batch:
            return False
        await self._learn_assets(batch)
        try:
            await self._store(batch)
        except BAD_DATA as error:
            await self._store_one_by_one(batch, error)
        del self._guests.reports[: len(batch)]
        topics = {"finish"} | ({"delivery"} if any(r.changes for r in batch) else set())
        if any(r.state is TaskState.QUEUED for r in batch):
            topics.add("task")
        self._role.wakeups.notify(*topics)
        return True

    async def _store(self, batch: list[Report]) -> None:
        statuses = await tasks.finish(self._role.database, self._role.id, batch, self._assets)
        for finished, status in zip(batch, statuses, strict=True):
            if status == "fenced":
                log.warning("report came too late", task=finished.task, attempt=finished.attempt)

    async def _store_one_by_one(self, batch: list[Report], error: Exception) -> None:
        """Data that the database refuses: find the report it is in, and fail that attempt with the reason."""
        if len(batch) > 1:
            for finished in batch:
                try:
                    await self._store([finished])
                except BAD_DATA as reason:
                    await self._store([refused(finished, reason)])
        else:
            await self._store([refused(batch[0], error)])

    async def _learn_assets(self, batch: list[Report]) -> None:
        unknown = {c.asset for r in batch for c in r.changes} - self._assets.keys()
        for name in unknown:
            try:
                self._assets |= await asset_ids(self._role.database, [name])
            except NotFoundError as error:
                _refuse_events_of(name, batch, error)


class RenewTasks(Service):
    """Renews the leases of exactly the attempts under way; kills those that are no longer ours."""

    name = "renew tasks"

    def __init__(self, role: Role, guests: Guests) -> None:
        self._role = role
        self._guests = guests
        self.poll = role.settings.renew_seconds

    async def run_once(self) -> bool:
        held = [(g.task.id, g.task.token) for g in self._guests.running.values()]
        kept = await tasks.renew(self._role.database, self._role.id, held, self._role.settings.lease_seconds)
        for task, _ in held:
            if task not in kept:
                self._guests.kill_fenced(task)
        return False


def refused(finished: Report, reason: Exception) -> Report:
    """The attempt failed: what it reported cannot be stored."""
    error = f'{{"type": "{type(reason).__name__}", "message": "the database refused the result", "traceback": ""}}'
    log.error("result refused by the database", task=finished.task, error=str(reason))
    return Report(finished.task, finished.attempt, finished.token, TaskState.FAILED, Outcome.FAILED, error=error)


def _refuse_events_of(name: str, batch: list[Report], error: NotFoundError) -> None:
    for i, finished in enumerate(batch):
        if any(c.asset == name for c in finished.changes):
            batch[i] = refused(finished, error)


async def finish_all(service: FinishAttempts, guests: Guests, seconds: float) -> None:
    """Store what is still in line, for at most so many seconds."""
    async with asyncio.timeout(seconds):
        while guests.reports:
            await service.run_once()
