"""Turns pending deliveries into runs: locks consumers, reads, judges, consumes exactly what was judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from onceflow.executors import notify_queued
from onceflow.model.asset_expr import assets_of
from onceflow.model.consume import judge
from onceflow.model.dagspec import AssetSchedule
from onceflow.model.serialize import dumps
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.runtime.service import SELDOM, Service
from onceflow.scheduler.start_runs import start_startable
from onceflow.scheduler.turn import Turn
from onceflow.store import deliveries, starts
from onceflow.store.deliveries import PENDING_PER_CONSUMER, Claimed, Consumption
from onceflow.store.versions import Version, Versions

CONSUMERS_PER_BATCH = 64

log = get_logger("onceflow.scheduler")


class Judged:
    """What the judging of a batch came to."""

    def __init__(self) -> None:
        self.consumptions: list[Consumption] = []
        self.held: list[tuple[int, int, str]] = []
        self.waiting: list[tuple[int, int]] = []
        self.judgements: list[tuple[int, str]] = []

    def add(self, claimed: Claimed, version: Version | None, unreadable: str = "") -> None:
        """Judge one consumer. What it cannot consume is held, with the reason."""
        reason = claimed.hold or (f"error: {unreadable}" if unreadable else "")
        schedule = version.spec.schedule if version else None
        if not reason and not isinstance(schedule, AssetSchedule):
            reason = "unscheduled"
        if reason or not isinstance(schedule, AssetSchedule):
            self.held += [(claimed.dag, p.event_id, reason) for p in claimed.pending]
            return
        named = set(assets_of(schedule.condition))
        self.held += [(claimed.dag, p.event_id, "unscheduled") for p in claimed.pending if p.asset not in named]
        pending = [p for p in claimed.pending if p.asset in named]
        judgement = judge(schedule, pending)
        explanation = dumps(judgement.explanation)
        if judgement.groups:
            self.consumptions.append(Consumption(claimed.dag, claimed.version, judgement.groups, explanation))
        else:
            self.judgements.append((claimed.dag, explanation))
        consumed = {e for g in judgement.groups for e in g.members}
        self.waiting += [(claimed.dag, p.event_id) for p in pending if p.event_id not in consumed]


class CreateAssetRuns(Service):
    name = "create asset runs"
    topics = ("delivery",)
    poll = SELDOM
    pace = 0.008

    def __init__(self, role: Role, versions: Versions) -> None:
        self._role = role
        self._versions = versions
        self._turn = Turn(CONSUMERS_PER_BATCH)

    async def run_once(self) -> bool:
        consumers = await deliveries.find_consumers(self._role.database, CONSUMERS_PER_BATCH, self._turn.after)
        if self._turn.over(consumers):
            return False
        async with self._role.database.transaction() as tx:
            claimed = await deliveries.claim(tx, consumers)
            self.contended = len(claimed) < len(consumers)
            if not claimed:
                return False
            self.handled = sum(len(c.pending) for c in claimed)
            self.more = len(consumers) == CONSUMERS_PER_BATCH or any(
                len(c.pending) >= PENDING_PER_CONSUMER for c in claimed
            )
            versions = await self._versions.read(tx, {c.version for c in claimed if c.version})
            judged = judge_all(claimed, versions, self._versions.unreadable)
            await deliveries.hold(tx, judged.held)
            await deliveries.mark_judged(tx, judged.waiting, judged.judgements)
            started = Counter[int]()
            if judged.consumptions:
                await deliveries.consume(tx, self._role.id, judged.consumptions)
                started = await start_startable(tx, self._versions, [c.dag for c in judged.consumptions])
        if started:
            notify_queued(self._role.wakeups)
        if starts.RUNS_PER_DAG in started.values():
            self._role.wakeups.wake("run")
        return True


def judge_all(
    claimed: list[Claimed], versions: dict[int, Version], unreadable: Mapping[int, str] = MappingProxyType({})
) -> Judged:
    """Judge every consumer of a batch; one that cannot be judged is held and named, and harms no other."""
    judged = Judged()
    for consumer in claimed:
        try:
            judged.add(consumer, versions.get(consumer.version), unreadable.get(consumer.version, ""))
        except Exception as error:
            log.error("consumer cannot be judged; its deliveries are held", dag=consumer.dag, exc_info=error)
            judged.held += [(consumer.dag, p.event_id, f"error: {error}") for p in consumer.pending]
    return judged
