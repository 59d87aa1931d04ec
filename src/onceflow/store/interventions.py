"""What people did to DAGs: who, when and why, so that what it changed can be explained."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from onceflow.model.errors import InputError
from onceflow.model.serialize import dumps
from onceflow.model.times import to_rfc3339
from onceflow.store import assets
from onceflow.store.database import Connection, Database


@dataclass(frozen=True)
class Scope:
    """Which open deliveries a person means: to this DAG, of these events, of this asset (name or URI); None is any."""

    dag_id: str | None = None
    events: Sequence[int] | None = None
    asset: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As it is kept for the record."""
        named = {} if self.asset is None else {"asset": self.asset}
        return named | ({} if self.events is None else {"events": list(self.events)})


async def read(tx: Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Interventions by id, as they are put into an explanation: `id`, `pending`, `by`, `reason`, `at`."""
    if not ids:
        return {}
    return {
        r["id"]: {
            "id": r["id"],
            "kind": r["kind"],
            "pending": r["pending"],
            "by": json.loads(r["by"]),
            "reason": r["reason"],
            "at": to_rfc3339(r["made_at"]),
        }
        for r in await tx.fetch("interventions/read", list(ids))
    }


@dataclass(frozen=True)
class Settled:
    """What a person did to the open deliveries of one DAG: how many it concerned."""

    dag_id: str
    deliveries: int


async def discard(
    database: Database, scope: Scope, *, by: Mapping[str, Any], reason: str | None = None
) -> list[Settled]:
    """End open deliveries, pending or held, for good; recorded with each. An unknown DAG has none."""
    return await _settle(database, "discard", scope, by, reason)


async def release(
    database: Database, scope: Scope, *, by: Mapping[str, Any], reason: str | None = None
) -> list[Settled]:
    """Give held deliveries back, to be judged as ever. An unknown DAG has none.

    What is held because its DAG is paused, removed or not scheduled on the asset any more comes back with that.
    """
    return await _settle(database, "release", scope, by, reason)


async def _settle(
    database: Database, kind: Literal["discard", "release"], scope: Scope, by: Mapping[str, Any], reason: str | None
) -> list[Settled]:
    if scope.dag_id is None and scope.events is None:
        raise InputError("nothing says which deliveries are meant", remedy="name events, or a DAG")
    asset = None
    if scope.asset is not None:
        asset = (await assets.find(database, [scope.asset]))[scope.asset].id
    pending = "each" if kind == "release" else None
    args = (scope.events, asset, None, dumps(dict(by)), reason, dumps(scope.as_dict()), None)
    async with database.transaction() as tx:
        dags = await tx.fetch("deliveries/open_consumers", scope.events, scope.dag_id)
        settled = [await tx.fetchrow("deliveries/settle_by_hand", d["id"], kind, pending, *args) for d in dags]
    return [Settled(d["dag_id"], s["deliveries"]) for d, s in zip(dags, settled, strict=True) if s is not None]
