"""Deliveries: what is pending for a consumer, and what becomes of it (G3, G4).

The consumer is locked, then a later statement reads what is pending, then it is judged, then exactly the judged ids are
consumed; the row count must match or nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from onceflow.model.consume import Group, Pending
from onceflow.store.database import Connection, Database

PENDING_PER_CONSUMER = 500


@dataclass
class Claimed:
    """A locked consumer and what is pending for it. `hold` = why it may not consume now ("" = it may)."""

    dag: int
    version: int
    hold: str
    pending: list[Pending] = field(default_factory=list)


@dataclass(frozen=True)
class Consumption:
    """The runs to create for one consumer, and why."""

    dag: int
    version: int
    groups: Sequence[Group]
    explanation: str  # JSON


async def find_consumers(database: Database, limit: int, after: int = 0) -> list[int]:
    """Ids, in order and above `after`, of consumers with deliveries that nobody has judged."""
    return [r["dag_id"] for r in await database.fetch("deliveries/find_consumers", limit, after)]


async def claim(tx: Connection, dags: Sequence[int], limit: int = PENDING_PER_CONSUMER) -> list[Claimed]:
    """Lock the consumers that nobody else holds and read what is pending for them, in commit order."""
    found: dict[int, Claimed] = {}
    for row in await tx.fetch("deliveries/claim", list(dags), limit):
        claimed = found.get(row["dag"])
        if claimed is None:
            claimed = found[row["dag"]] = Claimed(row["dag"], row["version"], row["hold"] or "")
        claimed.pending.append(Pending(row["event"], row["asset"]))
    return list(found.values())


async def hold(tx: Connection, held: Sequence[tuple[int, int, str]]) -> None:
    """Hold deliveries, each given as (dag, event, reason)."""
    if held:
        dags, events, reasons = zip(*held, strict=True)
        await tx.execute("deliveries/hold", list(dags), list(events), list(reasons))


async def mark_judged(
    tx: Connection,
    judged: Sequence[tuple[int, int]],
    judgements: Sequence[tuple[int, str]],
    now: datetime | None = None,
) -> None:
    """Note that deliveries, given as (dag, event), were judged and stay pending, and per dag why (JSON)."""
    if judged:
        dags, events = zip(*judged, strict=True)
        await tx.execute("deliveries/mark_judged", list(dags), list(events))
    if judgements:
        dags, texts = zip(*judgements, strict=True)
        await tx.execute("dags/note_judgement", list(dags), list(texts), now)


async def consume(
    tx: Connection, process: UUID, consumptions: Sequence[Consumption], now: datetime | None = None
) -> list[int]:
    """Create the runs and settle their deliveries; returns the runs' ids. The consumers are locked by `claim`."""
    run_dag, run_decision, run_start = [], [], []
    member_run, member_event = [], []
    for decision, consumption in enumerate(consumptions, 1):
        for group in consumption.groups:
            run_dag.append(consumption.dag)
            run_decision.append(decision)
            run_start.append(group.start_event)
            member_run.extend([len(run_dag)] * len(group.members))
            member_event.extend(group.members)
    rows = await tx.fetch(
        "runs/create_from_deliveries",
        process,
        [c.dag for c in consumptions],
        [c.version for c in consumptions],
        [c.explanation for c in consumptions],
        run_dag,
        run_decision,
        run_start,
        member_run,
        member_event,
        now,
    )
    return [r["id"] for r in rows]
