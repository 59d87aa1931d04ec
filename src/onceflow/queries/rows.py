"""Rows as plain values, the same for CLI, API and UI: times are RFC 3339 UTC with microseconds and `Z`, UUIDs text."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from onceflow.model.times import to_rfc3339
from onceflow.store.database import Database, Record

Row = dict[str, Any]
Rows = AsyncGenerator[Row, None]

# Columns whose type is `json` in every statement that has a column of this name; the driver gives them as text.
JSON_COLUMNS = frozenset(
    {
        "assets",
        "by",
        "by_disposition",
        "canary",
        "conf",
        "created_by",
        "cursor",
        "deliveries",
        "error",
        "explanation",
        "extra",
        "extra_as_it_came",
        "failure",
        "intervention_made",
        "last_error",
        "last_judgement",
        "pause_made",
        "paused_by",
        "released_by",
        "rules",
        "schedule",
        "source",
        "spec",
        "subscriptions",
        "storm",
        "tags",
        "warnings",
        "watched_by",
    }
)


@dataclass(frozen=True)
class Page:
    """A part of a listing, and how many rows the whole has."""

    rows: list[Row]
    total: int


def plain(record: Record, hide: Iterable[str] = ()) -> Row:
    """A row as JSON's own types, without the columns in `hide`."""
    return {name: _plain(name, value) for name, value in record.items() if name not in hide}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return json.loads(value) if name in JSON_COLUMNS else value
    if isinstance(value, datetime):
        return None if value.year == 1 else to_rfc3339(value)  # year 1: -infinity
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list):
        return [_plain("", item) for item in value]
    return value


async def stream(database: Database, name: str, *args: Any, hide: Iterable[str] = ("total",)) -> Rows:
    """The rows of a statement, read as they are used, so that a long listing needs no memory."""
    async with database.cursor(name, *args) as records:
        async for record in records:
            yield plain(record, hide)


async def page(database: Database, name: str, *args: Any) -> Page:
    """A part of a listing: the statement's last two arguments are limit and offset, its column `total` the count."""
    records = await database.fetch(name, *args)
    if records:
        return Page([plain(r, ("total",)) for r in records], records[0]["total"])
    if not args[-1]:
        return Page([], 0)
    first = await database.fetch(name, *args[:-2], 1, 0)  # beyond the end: only the count is wanted
    return Page([], first[0]["total"] if first else 0)


async def collect(rows: Rows) -> list[Row]:
    """All rows of a listing."""
    async with aclosing(rows):
        return [row async for row in rows]
