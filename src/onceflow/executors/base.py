"""The seam between a worker and where its attempts come from.

A worker asks its executor for attempts, renews those it runs, and hands over how they ended; it knows no database. The
local executor does that through the database; one that brings attempts over a broker, or over the API to a machine that
cannot reach the database, does the same with other means. `tests/conformance/executors.py` is what each has to pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from onceflow.store.tasks import ClaimedTask, FinishStatus, Report


class Executor(Protocol):
    """Brings queued tasks of `name` to a worker; `task.executor` names it."""

    name: str

    async def claim(self, limit: int) -> list[ClaimedTask]:
        """Up to `limit` attempts, each handed to one worker only, best priority first."""
        ...

    async def renew(self, held: Sequence[tuple[int, UUID]]) -> set[int]:
        """Renew the leases of exactly these (task, token); the tasks that are still this worker's."""
        ...

    async def finish(self, reports: Sequence[Report]) -> list[FinishStatus]:
        """Store how attempts ended: "finished", "repeated" if it was stored before, "fenced" if it came too late."""
        ...
