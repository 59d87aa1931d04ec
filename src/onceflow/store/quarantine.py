"""Events in quarantine, whose payload breaks their asset's contract or gives no key: mended, or let go on, by a person.

An event keeps the identity that it has. One that should have a key and has none gets it now, from the payload or from
the person; if another event has that key by now, both are one change, and this one is discarded with that said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from onceflow.model.change import Change, identified, key_hash
from onceflow.model.contract import flaw
from onceflow.model.errors import ConflictError, InputError, NotFoundError
from onceflow.model.key import Key
from onceflow.model.limits import check_extra, check_key
from onceflow.model.rules import Rules
from onceflow.model.serialize import dumps
from onceflow.store import assets
from onceflow.store.database import Connection, Database, Record

LISTED = "`onceflow events list --quarantined` lists those that are"


@dataclass(frozen=True)
class Released:
    """It goes on under `key` (None: it has none), or it is the same change as the event `same_as`."""

    key: str | None
    same_as: int | None = None


async def release(
    database: Database,
    event: int,
    *,
    extra: Any = None,
    as_it_is: bool = False,
    key: str | None = None,
    if_sound: bool = False,
    by: Mapping[str, Any],
    reason: str | None = None,
    now: datetime | None = None,
) -> Released:
    """Let a quarantined event go on, with another payload or as it is; it keeps its identity and its place.

    `if_sound`: as it is, but only if it keeps the contract by now. One that has no key gets it: `key`, or what its
    payload gives by what is declared at present. Raises NotFoundError for an unknown event, ConflictError for one that
    is not quarantined, InputError when the payload breaks the contract as well, has another key than the event, or no
    key can be had.
    """
    text = None if as_it_is or if_sound else dumps({} if extra is None else extra, "extra")
    if text is not None:
        check_extra(text, "extra")
    if key is not None:
        check_key(key, "key")
    async with database.transaction() as tx:
        asset = await tx.fetchrow("events/lock_asset", event)
        if asset is None:
            raise NotFoundError(f"there is no event {event}", remedy="`onceflow events list --quarantined` lists them")
        found = await tx.fetchrow("events/to_mend", event)
        if found is None:
            raise ConflictError(f"event {event} is not quarantined", remedy=LISTED)
        rules = Rules.of(json.loads(asset["rules"]))
        problem = None if rules.schema is None else flaw(rules.schema, text or found["extra"])
        if (text is not None or if_sound) and problem is not None:
            raise InputError(f"this payload breaks the schema, too: {problem}", where="extra", remedy="correct it")
        if key is not None and found["key"] is None and not found["keyless"]:
            raise InputError(f"event {event} has no key, and needs none", where="key", remedy="leave it out")
        named = _named(found, text, key, _declared(found, rules.key))
        by_whom = dumps(dict(by))
        if not found["keyless"] or named is None:
            _check_same(found, named)
            await tx.execute("events/release", event, text, by_whom, reason, now)
            return Released(found["key"])
        return await _name(tx, event, named, text, problem is None, by_whom, reason, now)


@dataclass(frozen=True)
class Rechecked:
    """What a second look at an asset's quarantine came to, by event; `left`: what is still wrong."""

    released: dict[int, Released]
    left: dict[int, str]


async def recheck(database: Database, asset: str, *, by: Mapping[str, Any], reason: str | None = None) -> Rechecked:
    """Judge an asset's quarantined events by what is declared at present: those that are right by now go on, in order.

    Each is a transaction of its own. Raises NotFoundError for an unknown asset.
    """
    ref = (await assets.find(database, [asset]))[asset]
    done = Rechecked({}, {})
    for row in await database.fetch("events/quarantined", ref.id):
        try:
            done.released[row["id"]] = await release(database, row["id"], if_sound=True, by=by, reason=reason)
        except InputError as problem:
            done.left[row["id"]] = problem.message
        except (ConflictError, NotFoundError):
            continue  # somebody else has just mended it
    return done


async def _name(tx: Connection, event: int, key: str, *how: Any) -> Released:
    known = await tx.fetchval("events/name", event, key_hash(key), key, *how)
    return Released(key, None if known == event else known)


def _declared(event: Record, of_asset: Key | None) -> Key | None:
    """The key that is declared at present for who told of the event: its watcher's, or the asset's.

    An event knows its watcher by name, which may be that on another asset: then it counts what all of them declare.
    """
    own = {name: Rules.of({"key": key}).key or of_asset for name, key in json.loads(event["watches"]).items()}
    if event["watcher"] in own:
        return own[event["watcher"]]
    several = list(dict.fromkeys(own.values())) if event["watcher"] is not None else []
    return several[0] if len(several) == 1 else of_asset


def _named(event: Record, text: str | None, key: str | None, declared: Key | None) -> str | None:
    """The key that the event has with this payload: the one given, or the declared one. Raises InputError.

    None if none is declared, or, for one that has its key, if that is not what is declared.
    """
    if key is not None:
        return key
    if event["keyless"]:
        return _read(event, text or event["extra"], declared)
    before, after = (_try(event, extra, declared) for extra in (event["as_it_came"], text or event["extra"]))
    if before is not None and before != event["key"]:
        return None  # it brought its own, which its payload knows nothing of
    if before is not None and after is None:
        return _read(event, text or event["extra"], declared)
    return after


def _read(event: Record, extra: str, declared: Key | None) -> str | None:
    change = Change(event["asset"], extra, None, UUID(int=0))
    try:
        return identified(change, declared).key
    except InputError as error:
        remedy = "send a payload that gives the key, or say which one it is: --key, or `key` in a request"
        raise InputError(error.message, where=error.where, remedy=remedy) from error


def _try(event: Record, extra: str, declared: Key | None) -> str | None:
    try:
        return _read(event, extra, declared)
    except InputError:
        return None


def _check_same(event: Record, named: str | None) -> None:
    if event["key"] is None or named is None or named == event["key"]:
        return
    raise InputError(
        f"the event has the key {event['key']!r}, and this payload is that of {named!r}",
        where="extra",
        remedy=f"an event keeps its identity: correct the payload, or say that it is the same: --key {event['key']}; "
        "another change is emitted, not mended",
    )
