"""The local executor: workers with access to the database take queued tasks from it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from onceflow.store import tasks
from onceflow.store.database import Database
from onceflow.store.events import asset_ids
from onceflow.store.tasks import ClaimedTask, FinishStatus, Report


class LocalExecutor:
    """See `executors/base.py`."""

    name = "local"

    def __init__(self, database: Database, worker: UUID, lease_seconds: float) -> None:
        self._database = database
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._assets: dict[str, int] = {}

    async def claim(self, limit: int) -> list[ClaimedTask]:
        return await tasks.claim(self._database, self._worker, limit, self._lease_seconds, executor=self.name)

    async def renew(self, held: Sequence[tuple[int, UUID]]) -> set[int]:
        return await tasks.renew(self._database, self._worker, held, self._lease_seconds)

    async def finish(self, reports: Sequence[Report]) -> list[FinishStatus]:
        """Raises NotFoundError when a report has an event of an asset that nobody declared."""
        unknown = {c.asset for r in reports for c in r.changes} - self._assets.keys()
        if unknown:
            self._assets |= await asset_ids(self._database, sorted(unknown))
        return await tasks.finish(self._database, self._worker, reports, self._assets)
