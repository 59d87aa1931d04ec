"""Records what a trigger noticed: fence, cursor, events and deliveries in one transaction (G1, G2, G5)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from onceflow.model.change import Change
from onceflow.model.errors import FencedError, InputError, NotFoundError, StaleError
from onceflow.model.event_filter import judge_payload
from onceflow.model.key import Key
from onceflow.model.message import MessageId
from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.store.database import is_transient
from onceflow.store.events import Ownership, record_if_owner
from onceflow.store.watchers import OwnedWatcher, Route, Routes, routes

PAUSE = 0.1

log = get_logger("onceflow.triggerer")


@dataclass(frozen=True)
class Batch:
    """What one `yield` of a trigger said: the `number`-th since its start."""

    number: int
    events: list[Mapping[str, Any]]
    cursor: str | None

    @classmethod
    def read(cls, message: Mapping[str, Any]) -> Batch:
        return cls(message["n"], message["events"], message.get("cursor"))


@dataclass(frozen=True)
class Routed:
    """A batch as its assets' changes, with the keys that are declared by asset. `unmatched`: events of no asset."""

    changes: list[Change]
    keys: dict[str, Key]
    unmatched: int


async def deliver(role: Role, watcher: OwnedWatcher, start: UUID, batch: Batch, number: int, feeds: Routes) -> Routes:
    """Store the batch; tried again under the same sightings while the database is away and the lease holds.

    `start` identifies this start of the trigger: one term may see several, and each counts its batches anew. `number`
    rises with each batch of a term. `feeds`: the assets it feeds, as known; returns those it was stored by.
    Raises FencedError when the watcher has another owner by now.
    """
    if watcher.mode == "all" and batch.cursor is not None:
        raise InputError('a watcher with mode="all" yielded a cursor', remedy='store none, or use mode="single"')
    while True:
        crash_point("triggerer.deliver.before")
        routed = route(batch, start, feeds)
        source = {
            "kind": "watcher",
            "watcher": feeds.routes[0].name if feeds.routes else "",
            "process": str(role.id),
            "term": watcher.term,
        }
        ownership = Ownership(watcher.id, role.id, watcher.term, feeds.number, shared=watcher.mode == "all")
        try:
            recorded = await record_if_owner(
                role.database,
                ownership,
                routed.changes,
                source,
                keys=routed.keys,
                cursor=batch.cursor,
                batch=number,
                unmatched=routed.unmatched,
            )
        except (StaleError, NotFoundError) as error:  # an asset that it fed may be gone, too
            before, feeds = feeds, await _read_routes(role, watcher, feeds)
            if isinstance(error, NotFoundError) and feeds.number == before.number:
                raise
            continue
        except Exception as error:
            if not is_transient(error) or role.stop.is_set():
                raise
            log.warning("event not stored yet", watcher=feeds.label, error=str(error))
            await asyncio.sleep(PAUSE)
            continue
        crash_point("triggerer.deliver.after_commit")
        if any(r.is_new for r in recorded):
            role.wakeups.notify("delivery")
        return feeds


def route(batch: Batch, start: UUID, feeds: Routes) -> Routed:
    """Which assets each event of the batch is a change of. An asset that it matches twice has it once."""
    changes: list[Change] = []
    unmatched = 0
    matching = any(r.match is not None for r in feeds.routes)
    for index, event in enumerate(batch.events):
        payload = json.loads(event["extra"]) if matching else None
        told = "flaw" not in event  # else nobody knows whose it is: it is everybody's
        found = {
            r.asset: r for r in feeds.routes if r.match is None or not told or judge_payload(r.match, payload).accepted
        }
        changes += [_change(event, r, start, f"{batch.number}.{index}") for r in found.values()]
        unmatched += not found
    return Routed(changes, {r.asset: r.key for r in feeds.routes if r.key is not None}, unmatched)


def _change(event: Mapping[str, Any], to: Route, start: UUID, place: str) -> Change:
    """One event as a change of one asset; its sighting depends on nothing that may change while it is sent again."""
    given = event.get("message")
    message = None if given is None else MessageId.of(given)
    of = str(to.asset_id)
    key = event["key"] if event["key"] is not None else event.get("keys", {}).get(of)
    flaw = event.get("flaw") or event.get("flaws", {}).get(of)
    keyless = key is None and (event.get("keyless", False) or of in event.get("flaws", {}))
    return Change(
        to.asset, event["extra"], key, uuid5(start, f"{place}.{to.asset_id}"), message, flaw=flaw, keyless=keyless
    )


async def _read_routes(role: Role, watcher: OwnedWatcher, feeds: Routes) -> Routes:
    """What the watcher feeds by now; as before while the database is away."""
    try:
        found = (await routes(role.database, [watcher.id])).get(watcher.id)
    except Exception as error:
        if not is_transient(error) or role.stop.is_set():
            raise
        await asyncio.sleep(PAUSE)
        return feeds
    if found is None:
        raise FencedError(f"watcher {watcher.id} is no more", remedy="stop")
    return found
