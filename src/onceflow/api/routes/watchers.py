"""Watchers: list, and let one that was stopped in a storm go on."""

from __future__ import annotations

from fastapi import APIRouter

from onceflow.api import models
from onceflow.api.services import Answer, Requester, Shared, intervene
from onceflow.queries.rows import collect
from onceflow.queries.watchers import stream_watchers
from onceflow.store.watchers import end_storm

router = APIRouter(prefix="/api/v2/watchers", tags=["Watcher"])


@router.get("", response_model=models.WatcherCollection)
async def get_watchers(shared: Shared, asset: str | None = None, only_active: bool = True) -> Answer:
    """Watchers with their health, owner, last observation and last error; `asset`: only those that feed it."""
    rows = await collect(stream_watchers(shared.reads, asset, active=True if only_active else None))
    return Answer({"watchers": rows, "total_entries": len(rows)})


@router.post("/release", response_model=models.ReleasedWatchers)
async def release_watchers(body: models.ReleaseWatchers, shared: Shared, by: Requester) -> Answer:
    """Let watchers of an asset that were stopped in a storm go on, from the cursors that they had."""
    names = await intervene(end_storm(shared.writes, body.asset, body.watcher, by=by, reason=body.reason))
    shared.wake("watcher")
    return Answer({"asset": body.asset, "released": names})
