"""Watchers: who owns which, with what term (G5), and which assets each feeds.

A watcher is owned as long as its owner is ready: one row of the process is renewed, not one per watcher. What a process
owns by the database it compares with what it runs; so a claim whose answer was lost is given up and not owned for ever.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any, Literal
from uuid import UUID

from onceflow.model.errors import NotFoundError
from onceflow.model.event_filter import Filter
from onceflow.model.key import Key
from onceflow.model.rules import Rules
from onceflow.store.database import Database

AT_ONCE = 1000
"""Watchers whose observations are noted in one statement, so that it holds its rows for milliseconds."""


@dataclass(frozen=True, slots=True)
class Route:
    """An asset that a watcher feeds; `name` is the watcher's name there, `match` says with which changes, None: all.

    `key` is what the watcher declares for the asset, `key_file` the DAG file whose key function its events need, "" if
    they need none.
    """

    asset_id: int
    asset: str
    name: str
    match: Filter | None = None
    key: Key | None = None
    key_file: str = ""


@dataclass(frozen=True, slots=True)
class Routes:
    """All assets that a watcher feeds. `number` says which these are: it is another one when they have changed."""

    number: int
    routes: tuple[Route, ...]

    @property
    def label(self) -> str:
        """What to call the watcher in a log."""
        names = [f"{r.asset}/{r.name}" for r in self.routes[:1]]
        more = f" and {len(self.routes) - 1} more" if len(self.routes) > 1 else ""
        return "".join(names) + more or "a watcher of nothing"


@dataclass(frozen=True, slots=True)
class OwnedWatcher:
    """A watcher just claimed. `cursor`: JSON text as last committed, or None. `silent_after`: seconds, or None.

    `canary`: seconds from one synthetic change to the next, or None.
    `max_events_per_minute`: what it may tell before it is a storm; 0: any number, None: as the setting says.
    """

    id: int
    mode: Literal["single", "all"]
    term: int
    generation: int
    classpath: str
    kwargs: dict[str, Any]
    file: str
    code: str
    cursor: str | None
    strikes: int
    silent_after: float | None
    max_events_per_minute: int | None
    canary: float | None
    routes: Routes


@dataclass(frozen=True)
class Owned:
    """A watcher that is ours by the database. `generation` 0: nobody declares it any more.

    `settled`: it was claimed so long ago that the answer has come if it ever will.
    """

    id: int
    term: int
    generation: int
    settled: bool


@dataclass(frozen=True)
class Share:
    """How the watchers are shared: `active` of them, among so many ready `triggerers`.

    `free`: some have no owner. `to_join`: some that every triggerer runs are not run by this one.
    """

    active: int
    free: bool
    to_join: bool
    triggerers: int

    @property
    def fair(self) -> int:
        """How many one triggerer should own."""
        return -(-self.active // max(1, self.triggerers))


async def share(database: Database, owner: UUID, *, take_over: bool) -> Share:
    row = await database.fetchrow("watchers/share", take_over, owner)
    assert row is not None
    return Share(row["active"], row["free"], row["to_join"], row["triggerers"])


async def claim(database: Database, owner: UUID, limit: int, *, take_over: bool) -> list[OwnedWatcher]:
    """Claim up to `limit` watchers without an owner; with `take_over` also those whose owner is not ready any more."""
    return await _with_routes(database, await database.fetch("watchers/claim", owner, limit, take_over))


async def join(database: Database, owner: UUID, limit: int) -> list[OwnedWatcher]:
    """Begin to run up to `limit` of the watchers that every triggerer runs."""
    return await _with_routes(database, await database.fetch("watchers/join", owner, limit))


async def routes(database: Database, watchers: Collection[int]) -> dict[int, Routes]:
    """What these watchers feed now."""
    found: dict[int, tuple[int, list[Route]]] = {}
    for row in await database.fetch("watchers/routes", sorted(watchers)):
        _, some = found.setdefault(row["id"], (row["routing"], []))
        if row["asset_id"] is not None:
            match = json.loads(row["match"]) if row["match"] else None
            key = Rules.of({"key": json.loads(row["key"])}).key if row["key"] else None
            some.append(Route(row["asset_id"], row["asset"], row["name"], match, key, row["key_file"]))
    return {watcher: Routes(number, tuple(some)) for watcher, (number, some) in found.items()}


async def owned(database: Database, owner: UUID, lease_seconds: float) -> dict[int, Owned]:
    """What this process owns and runs, as the database has it, by id."""
    rows = await database.fetch("watchers/owned", owner, lease_seconds)
    return {r["id"]: Owned(**dict(r)) for r in rows}


async def observed(database: Database, owner: UUID, seen: Sequence[tuple[int, int]]) -> None:
    """Note that these (watcher, term) looked at their source just now."""
    for start in range(0, len(seen), AT_ONCE):
        ids, terms = zip(*seen[start : start + AT_ONCE], strict=True)
        await database.execute("watchers/observed", owner, list(ids), list(terms))


async def store_canary(
    database: Database, owner: UUID, watcher: int, term: int, *, made_ago: float, noticed_ago: float
) -> None:
    """Store a synthetic change of a watcher that this process still runs."""
    await database.execute("watchers/canary_if_owner", owner, watcher, term, made_ago, noticed_ago)


async def judge_canaries(database: Database) -> tuple[int, bool]:
    """Judge the synthetic changes that wait for nothing; how many there were, and whether others wait."""
    row = await database.fetchrow("watchers/judge_canaries")
    assert row is not None
    return row["judged"], row["open"]


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


async def _with_routes(database: Database, rows: Sequence[Any]) -> list[OwnedWatcher]:
    if not rows:
        return []
    known = await routes(database, [r["id"] for r in rows])
    return [_owned(r, known[r["id"]]) for r in rows]


def _owned(row: Any, feeds: Routes) -> OwnedWatcher:
    """There may be thousands, most of them of a few classes: those texts are kept once."""
    once = {name: intern(row[name]) for name in ("mode", "classpath", "file", "code")}
    return OwnedWatcher(**dict(row) | once | {"kwargs": json.loads(row["kwargs"]), "routes": feeds})


async def trip(database: Database, owner: UUID, watcher: int, term: int, storm: Mapping[str, Any]) -> None:
    """Give up a watcher that tells too much; nobody runs it until `end_storm`, and its cursor stays where it was."""
    await database.execute("watchers/trip", owner, watcher, term, json.dumps(dict(storm)))


async def end_storm(
    database: Database, asset: str, name: str | None, *, by: Mapping[str, Any], reason: str | None = None
) -> list[str]:
    """Let the watchers of an asset (or the one of this name) that are in a storm go on; the names of those.

    Raises NotFoundError when there is no such watcher.
    """
    rows = await database.fetch("watchers/end_storm", asset, name, json.dumps(dict(by)), reason)
    if not rows:
        what = f"asset {asset!r} has no watcher" + (f" {name!r}" if name is not None else "")
        raise NotFoundError(what, remedy="`onceflow watchers` lists them")
    return [r["name"] for r in rows if r["ended"]]
