"""The local executor: workers with access to the database take queued tasks from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from onceflow.store import assets, tasks
from onceflow.store.database import Database
from onceflow.store.tasks import ClaimedTask, FinishStatus, Report


class LocalExecutor:
    """See `executors/base.py`."""

    name = "local"

    def __init__(self, database: Database, worker: UUID, lease_seconds: float) -> None:
        self._database = database
        self._worker = worker
        self._lease_seconds = lease_seconds

    async def claim(self, limit: int) -> list[ClaimedTask]:
        return await tasks.claim(self._database, self._worker, limit, self._lease_seconds, executor=self.name)

    async def renew(self, held: Sequence[tuple[int, UUID]]) -> set[int]:
        return await tasks.renew(self._database, self._worker, held, self._lease_seconds)

    async def finish(self, reports: Sequence[Report]) -> list[FinishStatus]:
        """Raises NotFoundError when a report has an event of an asset that nobody declared, InputError when an event's
        payload lacks what its asset declares as the key."""
        named = {c.asset for r in reports for c in r.changes}
        found = await assets.find(self._database, sorted(named)) if named else {}
        reports = [replace(r, changes=await assets.by_rules(r.changes, found)) if r.changes else r for r in reports]
        return await tasks.finish(self._database, self._worker, reports, {name: found[name].id for name in found})
