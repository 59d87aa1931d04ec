"""Storms: a consumer whose events start too many runs holds them, until a person says how they go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from onceflow.model.errors import InputError
from onceflow.model.serialize import dumps
from onceflow.store.database import Database

How = Literal["each", "join", "slowly", "discard"]
SLOWEST, FASTEST = 0.0001, 60_000.0
"""Events a minute; the slowest is about one a week."""


@dataclass(frozen=True)
class Ended:
    """How a storm was ended; `storm`: whether there was one. `deliveries`: how many events that concerned."""

    dag_id: str
    active: bool
    paused: bool
    storm: bool
    deliveries: int


async def release(
    database: Database,
    dag_id: str,
    how: How,
    *,
    rate: float | None = None,
    by: Mapping[str, Any],
    reason: str | None = None,
    now: datetime | None = None,
) -> Ended | None:
    """Let a DAG consume again, and say what becomes of what a storm held, or was held as a loop. None: no such DAG.

    "each": they are judged as ever; "join": all into one run; "slowly": `rate` of them a minute, in their order, and
    what comes meanwhile after them; "discard". Raises InputError when a rate is missing or is none.
    """
    if (how == "slowly") != (rate is not None) or (rate is not None and not SLOWEST <= rate <= FASTEST):
        message = f"the rate is {rate!r}, with {how!r}"
        raise InputError(message, where="rate", remedy=f"{SLOWEST:g} to {FASTEST:g} events a minute, with slowly")
    row = await database.fetchrow("dags/release", dag_id, how, rate, dumps(dict(by)), reason, now)
    return None if row is None else Ended(dag_id, row["active"], row["paused"], row["storm"], row["deliveries"])


async def find_releasing(database: Database, limit: int) -> list[int]:
    """Ids of DAGs of which the next held events may be released."""
    return [r["id"] for r in await database.fetch("dags/find_releasing", limit)]


async def release_slowly(database: Database, dag: int, now: datetime | None = None) -> float | None:
    """Release the next events of a DAG; the seconds until the next may go. None: nothing was done."""
    row = await database.fetchrow("dags/release_slowly", dag, now)
    return None if row is None else row["seconds"]
