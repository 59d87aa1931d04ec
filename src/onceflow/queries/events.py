"""Events, as people see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onceflow.model.errors import NotFoundError
from onceflow.queries.rows import Page, Row, Rows, page, plain, stream
from onceflow.store.database import Database

SIGHTINGS = 1000
"""Later ones that are kept of an event, and shown."""


@dataclass(frozen=True)
class EventFilter:
    """Which events; None is any. `disposition` may be "open": pending or held."""

    asset: str | None = None
    key: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    source: str | None = None
    source_dag: str | None = None
    source_task: str | None = None
    consumer: str | None = None
    disposition: str | None = None
    event_id: int | None = None
    quarantined: bool | None = None

    def arguments(self) -> tuple[Any, ...]:
        return (
            self.asset,
            self.key,
            self.since,
            self.until,
            self.source,
            self.source_dag,
            self.source_task,
            self.consumer,
            self.disposition,
            self.event_id,
            self.quarantined,
        )


ANY = EventFilter()


def stream_events(
    database: Database, chosen: EventFilter = ANY, *, newest: bool = False, limit: int | None = None
) -> Rows:
    """Events with their witnesses and deliveries, in the order of commit within each asset, or newest first."""
    return stream(database, "events/list", *chosen.arguments(), newest, limit, 0)


async def show_event(database: Database, event_id: int) -> Row:
    """An event with its deliveries and its `sightings`: the first, which made it, and the later ones.

    Each has `source`, `seen_at`, `behind_seconds` (behind the first) and `differs` (its payload from the event's).
    Raises NotFoundError.
    """
    rows = (await list_events(database, EventFilter(event_id=event_id))).rows
    if not rows:
        remedy = "`onceflow events list` lists them; an old one may have been pruned, and some numbers are never used"
        raise NotFoundError(f"there is no event {event_id}", remedy=remedy)
    [event] = rows
    first = {"source": event["source"], "seen_at": event["created_at"], "behind_seconds": 0.0, "differs": False}
    later = [plain(r, ("sighting",)) for r in await database.fetch("events/witnesses", event_id, SIGHTINGS)]
    return event | {"sightings": [first, *later]}


async def list_events(
    database: Database, chosen: EventFilter = ANY, *, newest: bool = False, limit: int | None = None, offset: int = 0
) -> Page:
    """A page of events."""
    return await page(database, "events/list", *chosen.arguments(), newest, limit, offset)
