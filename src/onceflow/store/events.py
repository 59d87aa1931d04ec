"""Recording changes: the only way an event comes into being (G1, G2).

Every change has a sighting id, made before it is first sent and sent again with it until the answer is known; so an
unknown COMMIT neither doubles nor loses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from onceflow.model.change import Change
from onceflow.model.errors import InputError
from onceflow.model.key import Key
from onceflow.model.serialize import dumps
from onceflow.store import assets
from onceflow.store.assets import AssetRef, by_rules, source_of
from onceflow.store.database import Database

Status = Literal["stored", "duplicate", "repeated", "released"]


@dataclass(frozen=True)
class Recorded:
    """The answer for one change: the event it is, and whether this sighting made it.

    `duplicate`: the event existed, this is a further witness. `repeated`: this very sighting was recorded before.
    `released`: a further witness, whose payload took the place of one that was quarantined, and let the event go on.
    `event_id` is 0 for a duplicate that only a high-water mark knows.
    `key` is what the change was identified by; None if it was not by a key. `flaw`: why the payload is quarantined.
    """

    event_id: int
    status: Status
    key: str | None = field(default=None, compare=False)
    flaw: str | None = None

    @property
    def is_new(self) -> bool:
        """Whether there is something new to judge."""
        return self.status in ("stored", "released")


@dataclass(frozen=True)
class Ownership:
    """The right to write for a watcher: refused by the database once somebody else has claimed it (G5).

    `routing`: by which set of assets the changes were judged. `shared`: every triggerer runs it.
    """

    watcher: int
    owner: UUID
    term: int
    routing: int
    shared: bool = False


async def record(
    database: Database, changes: Sequence[Change], source: dict[str, Any], *, now: datetime | None = None
) -> list[Recorded]:
    """Record changes from outside (CLI, API), all in one transaction; the answers are in the order given.

    Raises NotFoundError for an unknown asset, InputError when a payload lacks what its asset declares as the key.
    """
    found = await assets.find(database, [c.asset for c in changes])
    changes = await by_rules(changes, found)
    rows = await database.fetch("events/record", *_arrays(changes, found, source), now)
    return _answers(rows, changes)


async def record_if_owner(
    database: Database,
    ownership: Ownership,
    changes: Sequence[Change],
    source: dict[str, Any],
    *,
    cursor: str | None = None,
    batch: int | None = None,
    unmatched: int = 0,
    keys: Mapping[str, Key] | None = None,
    now: datetime | None = None,
) -> list[Recorded]:
    """Record what a watcher saw together with its cursor (JSON text; None leaves it), if it is still its owner.

    `keys` are what the watcher itself declares, by asset; they go before the assets' own.
    `batch` numbers what is sent in this term, and stays the same when it is sent again: a session that was cut off, and
    comes after the one sent in its place and the next batch, does not move the cursor back. `unmatched`: how many more
    changes it saw that matched no asset.
    A payload that lacks the declared key is quarantined, as one that breaks its asset's schema. Raises FencedError when
    the watcher was claimed by somebody else, StaleError when it feeds other assets by now, and InputError when the
    trigger breaks the rules of an asset; then nothing was written.
    """
    found = await assets.find(database, [c.asset for c in changes]) if changes else {}
    changes = await by_rules(changes, found, keys, watched=True)
    arrays = _arrays(changes, found, source)
    right = (ownership.watcher, ownership.owner, ownership.term, ownership.routing)
    if ownership.shared:
        _check_identified(changes)
        rows = await database.fetch("events/record_if_watching", *right, unmatched, *arrays, now)
    else:
        rows = await database.fetch("events/record_if_owner", *right, cursor, batch, unmatched, *arrays, now)
    return _answers(rows, changes)


def _check_identified(changes: Sequence[Change]) -> None:
    """Each of several triggerers would make an event of its own of a change that nothing identifies."""
    for change in changes:
        if change.key is None and change.message is None and not change.keyless:
            remedy = 'give every TriggerEvent a key, declare one for the asset, or use mode="single"'
            raise InputError(f'a watcher with mode="all" told {change.asset!r} a change without a key', remedy=remedy)


def _arrays(changes: Sequence[Change], found: dict[str, AssetRef], source: dict[str, Any]) -> list[list[Any] | None]:
    text = dumps(source)
    return [
        [found[c.asset].id for c in changes],
        [c.sighting for c in changes],
        [c.hash for c in changes],
        [c.key for c in changes],
        [c.extra for c in changes],
        [text if c.message is None else dumps(source_of(c, source)) for c in changes],
        [c.flaw for c in changes] if any(c.flaw for c in changes) else None,
        [c.keyless for c in changes] if any(c.keyless for c in changes) else None,
    ]


def _answers(rows: Sequence[Any], changes: Sequence[Change]) -> list[Recorded]:
    ordered = sorted(rows, key=lambda r: r["n"])
    return [Recorded(r["event_id"], r["status"], c.key, c.flaw) for r, c in zip(ordered, changes, strict=True)]
