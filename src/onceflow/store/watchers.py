"""Watchers: who owns which, with what term (G5)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from onceflow.model.key import Key
from onceflow.model.rules import Rules
from onceflow.store.database import Database


@dataclass(frozen=True)
class OwnedWatcher:
    """A watcher just claimed. `cursor`: JSON text as last committed, or None.

    `key` is its own, `key_file` the DAG file whose key function its events need, "" if they need none.
    """

    id: int
    term: int
    generation: int
    asset: str
    name: str
    classpath: str
    kwargs: dict[str, Any]
    file: str
    key: Key | None
    key_file: str
    cursor: str | None
    strikes: int


@dataclass(frozen=True)
class Share:
    """How the watchers are shared: `active` of them, among so many live `triggerers`; `free`: some have no owner."""

    active: int
    free: bool
    triggerers: int

    @property
    def fair(self) -> int:
        """How many one triggerer should own."""
        return -(-self.active // max(1, self.triggerers))


async def share(database: Database, *, take_over: bool) -> Share:
    row = await database.fetchrow("watchers/share", take_over)
    assert row is not None
    return Share(row["active"], row["free"], row["triggerers"])


async def claim(
    database: Database, owner: UUID, limit: int, lease_seconds: float, *, take_over: bool
) -> list[OwnedWatcher]:
    """Claim up to `limit` watchers without an owner; with `take_over` also those whose lease ran out."""
    rows = await database.fetch("watchers/claim", owner, limit, lease_seconds, take_over)
    return [_owned(r) for r in rows]


def _owned(row: Any) -> OwnedWatcher:
    key = Rules.of({"key": json.loads(row["key"])}).key if row["key"] else None
    return OwnedWatcher(**dict(row) | {"kwargs": json.loads(row["kwargs"]), "key": key})


async def renew(
    database: Database, owner: UUID, held: Sequence[tuple[int, int, bool]], lease_seconds: float
) -> dict[int, int]:
    """Renew exactly these (watcher, term, observed since the last time); generations of those still owned."""
    if not held:
        return {}
    ids, terms, observed = zip(*held, strict=True)
    rows = await database.fetch("watchers/renew", owner, list(ids), list(terms), list(observed), lease_seconds)
    return {r["id"]: r["generation"] for r in rows}


async def release(database: Database, owner: UUID, held: Sequence[tuple[int, int]]) -> None:
    """Give up these (watcher, term), to be claimed by anybody."""
    if held:
        ids, terms = zip(*held, strict=True)
        await database.execute("watchers/release", owner, list(ids), list(terms))


async def fail(database: Database, owner: UUID, watcher: int, term: int, error: dict[str, Any]) -> None:
    """Give up a failed watcher with a strike and its error; it is tried again after a while."""
    await database.execute("watchers/fail", owner, watcher, term, json.dumps(error))


async def pause(database: Database, owner: UUID, watcher: int, term: int, seconds: float) -> None:
    """Give up a watcher whose trigger ended by itself, to be started again after so many seconds."""
    await database.execute("watchers/pause", owner, watcher, term, seconds)
