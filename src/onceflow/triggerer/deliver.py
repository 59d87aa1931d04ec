"""Records what a trigger noticed: fence, cursor, events and deliveries in one transaction (G1, G2, G5)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from onceflow.model.change import Change
from onceflow.model.message import MessageId
from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.store.database import is_transient
from onceflow.store.events import Ownership, record_if_owner
from onceflow.store.watchers import OwnedWatcher

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


async def deliver(role: Role, watcher: OwnedWatcher, start: UUID, batch: Batch, number: int) -> None:
    """Store the batch; tried again under the same sightings while the database is away and the lease holds.

    `start` identifies this start of the trigger: one term may see several, and each counts its batches anew. `number`
    rises with each batch of a term.
    Raises FencedError when the watcher has another owner by now.
    """
    source = {"kind": "watcher", "watcher": watcher.name, "process": str(role.id), "term": watcher.term}
    changes = [
        Change(watcher.asset, e["extra"], e["key"], uuid5(start, f"{batch.number}.{i}"), _message(e.get("message")))
        for i, e in enumerate(batch.events)
    ]
    ownership = Ownership(watcher.id, role.id, watcher.term)
    while True:
        crash_point("triggerer.deliver.before")
        try:
            recorded = await record_if_owner(
                role.database, ownership, changes, source, cursor=batch.cursor, batch=number, key=watcher.key
            )
        except Exception as error:
            if not is_transient(error) or role.stop.is_set():
                raise
            log.warning("event not stored yet", watcher=watcher.name, error=str(error))
            await asyncio.sleep(PAUSE)
            continue
        crash_point("triggerer.deliver.after_commit")
        if any(r.is_new for r in recorded):
            role.wakeups.notify("delivery")
        return


def _message(given: dict[str, Any] | None) -> MessageId | None:
    return None if given is None else MessageId.of(given)
