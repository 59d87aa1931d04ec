"""Pruning what is old, each call one bounded step in a transaction of its own; see `migrations/0003_pruning.sql`."""

from __future__ import annotations

from onceflow.store.database import Database


async def assets(database: Database, seconds: float | None) -> dict[int, float]:
    """Assets that have events and keep them for a time only, in seconds. `seconds`: if their rules do not say."""
    return {r["id"]: r["seconds"] for r in await database.fetch("pruning/assets", seconds)}


async def events(database: Database, asset: int, after: int, seconds: float, limit: int) -> tuple[int | None, int]:
    """Prune events of an asset that are older than this, of the first `limit` after the sequence number `after`.

    The sequence number to go on after, None if there is nothing more; and how many events went.
    """
    row = await database.fetchrow("pruning/events", asset, after, seconds, limit)
    assert row is not None
    return row["reached"], row["pruned"]


async def keys(database: Database, limit: int) -> int:
    """Forget identities of pruned events whose protection is over; how many were looked at."""
    return await database.fetchval("pruning/keys", limit)


async def runs(database: Database, seconds: float, limit: int) -> int:
    """Prune runs that no event started and that ended longer ago than this; how many."""
    return await database.fetchval("pruning/runs", seconds, limit)


async def watchers(database: Database, seconds: float, limit: int) -> int:
    """Forget watchers, with their cursors, that no file has declared for so long; how many."""
    return await database.fetchval("pruning/watchers", seconds, limit)


async def judgements(database: Database, seconds: float, limit: int) -> int:
    """Forget judgements without a run that were made longer ago than this; how many."""
    return await database.fetchval("pruning/judgements", seconds, limit)


async def requests(database: Database, seconds: float, limit: int) -> int:
    """Forget answers to requests that are older than this; how many."""
    return await database.fetchval("pruning/requests", seconds, limit)
