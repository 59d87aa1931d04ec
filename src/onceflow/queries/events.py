"""Events, as people see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onceflow.queries.rows import Page, Rows, page, stream
from onceflow.store.database import Database


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


async def list_events(
    database: Database, chosen: EventFilter = ANY, *, newest: bool = False, limit: int | None = None, offset: int = 0
) -> Page:
    """A page of events."""
    return await page(database, "events/list", *chosen.arguments(), newest, limit, offset)
