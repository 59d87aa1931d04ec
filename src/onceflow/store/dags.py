"""What people do to a DAG: pause it, let it run again. Each is recorded with who, when and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from onceflow.model.errors import ConflictError
from onceflow.model.serialize import dumps
from onceflow.store.database import Database

OnResume = Literal["each", "join", "discard"]


@dataclass(frozen=True)
class Paused:
    """The state after the change.

    `while_paused`: what becomes of the events that come now ("hold", "discard"), if it is paused. `released`: how many
    events the change gave back to be judged; `discarded`: how many it discarded. `in_storm`: its storm holds them.
    """

    dag_id: str
    paused: bool
    active: bool
    while_paused: str | None = None
    released: int = 0
    discarded: int = 0
    in_storm: bool = False


async def pause(
    database: Database, dag_id: str, *, by: Mapping[str, Any], reason: str | None = None, now: datetime | None = None
) -> Paused | None:
    """Pause a DAG: its queued runs do not start and its events wait. None if there is no such DAG."""
    row = await database.fetchrow("dags/pause", dag_id, dumps(dict(by)), reason, now)
    return None if row is None else Paused(dag_id, True, row["active"], row["while_paused"])


async def unpause(
    database: Database,
    dag_id: str,
    pending: OnResume = "each",
    *,
    by: Mapping[str, Any],
    reason: str | None = None,
    now: datetime | None = None,
) -> Paused | None:
    """Let a DAG run again. None if there is no such DAG.

    `pending` says what becomes of the events that wait: "each" is judged as ever, "join" is one run of all of them if
    the condition holds, "discard" discards them. Raises ConflictError when there is no pause to end by the last two.
    """
    row = await database.fetchrow("dags/unpause", dag_id, pending, dumps(dict(by)), reason, now)
    if row is None:
        return None
    if not row["was_paused"] and pending != "each":
        message = f"DAG {dag_id!r} is not paused, so its events cannot be resumed by {pending!r}"
        raise ConflictError(message, where="pending", remedy="pause it first, and look at what waits")
    count = row["deliveries"]
    discarded = count if pending == "discard" else 0
    return Paused(dag_id, False, row["active"], None, count - discarded, discarded, row["in_storm"])
