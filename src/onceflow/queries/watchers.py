"""Watchers, as people see them: who watches what, and whether anything comes of it."""

from __future__ import annotations

from contextlib import aclosing

from onceflow.queries.rows import Row, Rows, stream
from onceflow.store.database import Database


async def stream_watchers(
    database: Database, asset: str | None = None, *, active: bool | None = True, limit: int | None = None
) -> Rows:
    """Watchers by asset and name. `lag`: seconds since the last observation, or since the claim if there is none yet.

    `state` is the watcher's health in a word: watching, failing, backing off, unowned, or removed.
    """
    async with aclosing(stream(database, "watchers/list", asset, active, limit)) as rows:
        async for row in rows:
            yield row | {"state": _state(row)}


def _state(row: Row) -> str:
    if not row["active"]:
        return "removed"
    if row.pop("waiting"):
        return "backing off"
    if not row.pop("held"):
        return "unowned"
    return "failing" if row["strikes"] else "watching"
