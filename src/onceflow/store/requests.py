"""Requests to the API under an `Idempotency-Key`: what was answered, for as long as it is replayed."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from onceflow.store.database import Database


@dataclass(frozen=True)
class Known:
    """A request under its key. `status` and `answer` (JSON text) are None until it was answered."""

    body: UUID
    status: int | None
    answer: str | None


async def begin(database: Database, request: UUID, body: UUID) -> Known:
    """What is known of a request, which is noted now if it is new."""
    row = await database.fetchrow("requests/begin", request, body)
    assert row is not None
    return Known(row["body"], row["status"], row["answer"])


async def finish(database: Database, request: UUID, body: UUID, status: int, answer: str) -> Known:
    """Keep the answer, or learn the one that was kept first."""
    row = await database.fetchrow("requests/finish", request, body, status, answer)
    assert row is not None
    return Known(body, row["status"], row["answer"])


async def forget(database: Database, request: UUID) -> None:
    """The request was refused and did nothing."""
    await database.execute("requests/forget", request)
