"""Times as text and back: RFC 3339 in UTC with microseconds, the one form Onceflow writes. Naive input is UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from onceflow.model.errors import InputError


def as_utc(time: datetime) -> datetime:
    """The same instant in UTC; a naive time is taken to be UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def to_rfc3339(time: datetime) -> str:
    """`2026-01-31T09:30:00.000000Z`: always UTC, always six digits, so that text sorts as time does."""
    return as_utc(time).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def from_rfc3339(text: str, where: str = "") -> datetime:
    """An aware UTC time from RFC 3339 or ISO 8601 text; without an offset it is UTC. Raises InputError."""
    try:
        return as_utc(datetime.fromisoformat(text))
    except (ValueError, TypeError, OverflowError) as error:  # no year 0, no year 10000
        remedy = "a time looks like 2026-01-31T09:30:00Z"
        raise InputError(f"{text!r} is not a time", where=where, remedy=remedy) from error
