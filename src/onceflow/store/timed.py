"""Timed schedules: which DAGs are due, and their runs, one per (dag, slot)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from onceflow.store.database import Connection, Database

FULL = 100
"""With so many runs in its queue a timed DAG gets no more: slots of a long past become runs as the queue drains."""


@dataclass(frozen=True)
class DueDag:
    """A locked DAG that is due. `now` is the database's clock."""

    dag: int
    version: int
    next_slot_at: datetime
    anchor_at: datetime | None
    now: datetime


async def find_due(database: Database, limit: int, now: datetime | None = None) -> list[int]:
    """Ids of DAGs with a slot that has come, whose queue is not `FULL`."""
    return [r["id"] for r in await database.fetch("dags/find_due", limit, now, FULL)]


async def seconds_to_next(database: Database) -> float | None:
    """Until the next slot of a DAG whose queue is not `FULL`; None if there is none."""
    return await database.fetchval("dags/next_due", FULL)


async def claim_due(tx: Connection, dags: Sequence[int], now: datetime | None = None) -> list[DueDag]:
    """Lock the DAGs that nobody else holds; those of them that are still due."""
    rows = await tx.fetch("dags/claim_due", list(dags), FULL, now)
    return [DueDag(r["dag"], r["version"], r["next_slot_at"], r["anchor_at"], r["now_at"]) for r in rows]


async def create(
    tx: Connection,
    process: UUID,
    slots: Sequence[tuple[int, datetime]],
    following: Sequence[tuple[int, datetime | None]],
    now: datetime | None = None,
) -> int:
    """Create the runs of these (dag, slot) unless they exist, set each dag's next slot; returns how many are new."""
    await tx.execute("dags/set_next_slot", [d for d, _ in following], [s for _, s in following])
    if not slots:
        return 0
    return len(await tx.fetch("runs/create_timed", process, [d for d, _ in slots], [s for _, s in slots], now))


async def find_continuous(database: Database, limit: int, now: datetime | None = None) -> list[int]:
    """Ids of continuous DAGs with no run under way."""
    return [r["id"] for r in await database.fetch("dags/find_continuous", limit, now)]


async def create_continuous(
    tx: Connection, process: UUID, dags: Sequence[int], now: datetime | None = None
) -> list[int]:
    """Start the next run of those DAGs that still have none under way."""
    return [r["id"] for r in await tx.fetch("runs/create_continuous", process, list(dags), now)]
