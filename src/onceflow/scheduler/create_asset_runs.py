"""Turns pending deliveries into runs: locks consumers, reads, judges, consumes exactly what was judged."""

from __future__ import annotations

from collections import Counter
from functools import partial

from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.runtime.service import SELDOM, Service
from onceflow.scheduler.alarm import Alarm
from onceflow.scheduler.judge_consumers import judge_consumers
from onceflow.scheduler.start_runs import start_startable, tell_started
from onceflow.scheduler.turn import Turn
from onceflow.store import deliveries
from onceflow.store.deliveries import PENDING_PER_CONSUMER, Claimed
from onceflow.store.versions import Versions

CONSUMERS_PER_BATCH = 64

log = get_logger("onceflow.scheduler")


class CreateAssetRuns(Service):
    name = "create asset runs"
    topics = ("delivery",)
    poll = SELDOM
    pace = 0.006

    def __init__(self, role: Role, versions: Versions) -> None:
        self._role = role
        self._versions = versions
        self._turn = Turn(CONSUMERS_PER_BATCH)
        self._alarm = Alarm(partial(role.wakeups.wake, "delivery"))

    async def run_once(self) -> bool:
        consumers = await deliveries.find_consumers(self._role.database, CONSUMERS_PER_BATCH, self._turn.after)
        if self._turn.over(consumers):
            return False
        async with self._role.database.transaction() as tx:
            claimed = await deliveries.claim(tx, consumers, rate=self._role.settings.max_runs_per_minute)
            self.contended = len(claimed) < len(consumers)
            if not claimed:
                return False
            crash_point("scheduler.consume.locked")
            self.handled = sum(len(c.pending) for c in claimed)
            judged = await judge_consumers(tx, self._role.id, claimed, self._versions)
            crash_point("scheduler.consume.judged")
            started = Counter[int]()
            if judged.consumptions:
                started = await start_startable(tx, self._versions, [c.dag for c in judged.consumptions])
            crash_point("scheduler.consume.before_commit")
        crash_point("scheduler.consume.after_commit")
        self.more = len(consumers) == CONSUMERS_PER_BATCH or any(map(_may_have_more, claimed))
        self.more |= any(seconds <= 0 for seconds in judged.again.values())
        if judged.storms:
            log.warning("more runs in a minute than allowed: events are held", dags=[s.dag for s in judged.storms])
        self._alarm.set({c.dag: None for c in claimed}, {d: s for d, s in judged.again.items() if s > 0})
        tell_started(self._role.wakeups, started)
        return True


def _may_have_more(claimed: Claimed) -> bool:
    """Whether a limit was reached, or a person's join came first, and what is behind it is still to be judged."""
    return len(claimed.pending) >= PENDING_PER_CONSUMER or claimed.joining is not None
