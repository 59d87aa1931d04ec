"""Recording changes: the only way an event comes into being (G1, G2).

Every change has a sighting id, made before it is first sent and sent again with it until the answer is known; so an
unknown COMMIT neither doubles nor loses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from onceflow.model.change import Change
from onceflow.model.errors import NotFoundError
from onceflow.model.serialize import dumps
from onceflow.store.database import Database

Status = Literal["stored", "duplicate", "repeated"]


@dataclass(frozen=True)
class Recorded:
    """The answer for one change: the event it is, and whether this sighting made it.

    `duplicate`: the event existed, this is a further witness. `repeated`: this very sighting was recorded before.
    """

    event_id: int
    status: Status


@dataclass(frozen=True)
class Ownership:
    """The right to write for a watcher: refused by the database once somebody else has claimed it (G5)."""

    watcher: int
    owner: UUID
    term: int


async def asset_ids(database: Database, names: Sequence[str]) -> dict[str, int]:
    """Ids of the assets with these names or URIs; raises NotFoundError naming the first unknown one."""
    rows = await database.fetch("assets/find", sorted(set(names)))
    found = {r["wanted"]: r["id"] for r in rows}
    for name in names:
        if name not in found:
            known = [r["name"] for r in await database.fetch("assets/names", 10)]
            raise NotFoundError(
                f"there is no asset {name!r}",
                remedy=f"assets are declared by DAG files; known: {', '.join(known) or 'none'}",
            )
    return found


async def record(
    database: Database, changes: Sequence[Change], source: dict[str, Any], *, now: datetime | None = None
) -> list[Recorded]:
    """Record changes from outside (CLI, API), all in one transaction; the answers are in the order given.

    Raises NotFoundError for an unknown asset.
    """
    ids = await asset_ids(database, [c.asset for c in changes])
    rows = await database.fetch("events/record", *_arrays(changes, ids, source), now)
    return _answers(rows)


async def record_if_owner(
    database: Database,
    ownership: Ownership,
    changes: Sequence[Change],
    source: dict[str, Any],
    *,
    cursor: str | None = None,
    batch: int | None = None,
    now: datetime | None = None,
) -> list[Recorded]:
    """Record what a watcher saw together with its cursor (JSON text; None leaves it), if it is still its owner.

    `batch` numbers what is sent in this term, and stays the same when it is sent again: a session that was cut off, and
    comes after the one sent in its place and the next batch, does not move the cursor back.
    Raises FencedError when the watcher was claimed by somebody else; then nothing was written.
    """
    ids = await asset_ids(database, [c.asset for c in changes]) if changes else {}
    rows = await database.fetch(
        "events/record_if_owner",
        *_arrays(changes, ids, source),
        ownership.watcher,
        ownership.owner,
        ownership.term,
        cursor,
        now,
        batch,
    )
    return _answers(rows)


def _arrays(changes: Sequence[Change], ids: dict[str, int], source: dict[str, Any]) -> list[list[Any]]:
    text = dumps(source)
    return [
        [ids[c.asset] for c in changes],
        [c.sighting for c in changes],
        [c.hash for c in changes],
        [c.key for c in changes],
        [c.extra for c in changes],
        [text] * len(changes),
    ]


def _answers(rows: Sequence[Any]) -> list[Recorded]:
    return [Recorded(r["event_id"], r["status"]) for r in sorted(rows, key=lambda r: r["n"])]
