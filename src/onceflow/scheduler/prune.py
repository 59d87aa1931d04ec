"""Prunes what is old, step by step: events with all that hangs on them, identities, runs, watchers, answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator

from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.runtime.service import Service
from onceflow.store import pruning
from onceflow.store.database import BAD_DATA

STEP = 200
"""Events, runs or keys of one transaction: as long as that takes, nothing is recorded for the asset."""
REST = 60.0
PACE = 0.05

log = get_logger("onceflow.scheduler")


class Prune(Service):
    """One pass after the other, with a rest between; each look does one step of a pass.

    Schedulers may prune at once, and get into each other's way only for the length of a step.
    """

    name = "prune"
    poll = REST
    rest = PACE

    def __init__(self, role: Role) -> None:
        self._role = role
        self._pass: AsyncGenerator[Counter[str], None] | None = None
        self._counts: Counter[str] = Counter()

    async def run_once(self) -> bool:
        """One step; False at the end of a pass."""
        self._pass = self._pass or self._steps()
        try:
            crash_point("scheduler.prune.before")
            self._counts += await anext(self._pass)
            crash_point("scheduler.prune.after_commit")
        except StopAsyncIteration:
            if self._counts:
                log.info("pruned", **self._counts)
            self._pass, self._counts = None, Counter()
            return False
        except Exception:
            self._pass = None  # it has ended with this: the next look begins anew
            raise
        return True

    async def _steps(self) -> AsyncGenerator[Counter[str], None]:
        """Steps of one pass, with what each has pruned."""
        database, settings = self._role.database, self._role.settings
        for asset, seconds in (await pruning.assets(database, settings.retention_seconds)).items():
            reached: int | None = 0
            while reached is not None:
                try:
                    reached, pruned = await pruning.events(database, asset, reached, seconds, STEP)
                except BAD_DATA as error:
                    log.error("an asset's events cannot be pruned; those of others are", asset=asset, error=str(error))
                    break
                yield Counter(events=pruned)
        while forgotten := await pruning.keys(database, STEP):
            yield Counter(keys=forgotten)
        if settings.retention_seconds is not None:
            while runs := await pruning.runs(database, settings.retention_seconds, STEP):
                yield Counter(runs=runs)
            while judgements := await pruning.judgements(database, settings.retention_seconds, STEP):
                yield Counter(judgements=judgements)
            while watchers := await pruning.watchers(database, settings.retention_seconds, STEP):
                yield Counter(watchers=watchers)
        while requests := await pruning.requests(database, settings.replay_seconds, STEP):
            yield Counter(requests=requests)
