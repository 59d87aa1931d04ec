"""Delivering the stored history of assets to consumers that asked for it (`catchup=True`), in bounded steps."""

from __future__ import annotations

from onceflow.store.database import Database

EVENTS_PER_STEP = 1000


async def find(database: Database, limit: int) -> list[tuple[int, int]]:
    """Subscriptions that are catching up, as (asset, dag)."""
    return [(r["asset"], r["dag"]) for r in await database.fetch("assets/find_catching_up", limit)]


async def catch_up(database: Database, asset: int, dag: int, limit: int = EVENTS_PER_STEP) -> int | None:
    """Deliver the next events, in their order; how many. None when there is nothing to catch up with any more."""
    return await database.fetchval("assets/catch_up", asset, dag, limit)
