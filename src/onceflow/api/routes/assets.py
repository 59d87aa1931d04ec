"""Assets and their events: list, emit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal
from uuid import UUID

from fastapi import APIRouter, Request, Response

from onceflow.api import models, shapes
from onceflow.api.replay import IdempotencyKey, answered_once
from onceflow.api.services import Answer, Limit, Offset, Requester, Shared, intervene, moment
from onceflow.model.errors import InputError
from onceflow.queries.assets import asset_name, list_assets
from onceflow.queries.events import EventFilter, list_events, show_event
from onceflow.runtime.crash_points import crash_point
from onceflow.store.database import Database
from onceflow.store.emit import change, emit
from onceflow.store.quarantine import recheck, release

Disposition = Literal["open", "pending", "held", "started", "joined", "filtered", "superseded", "discarded"]

router = APIRouter(prefix="/api/v2/assets", tags=["Asset"])


@router.get("", response_model=models.AssetCollection)
async def get_assets(
    shared: Shared, limit: Limit = 50, offset: Offset = 0, name: str | None = None, only_active: bool = True
) -> Answer:
    """Assets by name; `name` may be a URI."""
    kept, active = shared.settings.retention_seconds, True if only_active else None
    found = await list_assets(shared.reads, kept, name, active=active, limit=limit, offset=offset)
    return Answer({"assets": [shapes.asset(row) for row in found.rows], "total_entries": found.total})


@router.get("/events", response_model=models.AssetEventCollection)
async def get_asset_events(
    *,
    shared: Shared,
    limit: Limit = 50,
    offset: Offset = 0,
    asset_id: int | None = None,
    name: str | None = None,
    key: str | None = None,
    source_dag_id: str | None = None,
    source_task_id: str | None = None,
    consumer: str | None = None,
    disposition: Disposition | None = None,
    quarantined: bool | None = None,
    timestamp_gte: str | None = None,
    timestamp_lte: str | None = None,
    order_by: Literal["id", "-id", "timestamp", "-timestamp"] = "id",
) -> Answer:
    """Events in the order of their commit within each asset, or newest first; `name` may be a URI.

    `consumer`: only events delivered to this DAG; `disposition`: only those that stand so ("open": pending or held);
    `quarantined`: only those that are in quarantine, or are not.
    """
    chosen = EventFilter(
        asset=name if asset_id is None else await asset_name(shared.reads, asset_id),
        key=key,
        source_dag=source_dag_id,
        source_task=source_task_id,
        consumer=consumer,
        disposition=disposition,
        quarantined=quarantined,
        since=moment(timestamp_gte, "timestamp_gte"),
        until=moment(timestamp_lte, "timestamp_lte"),
    )
    found = await list_events(shared.reads, chosen, newest=order_by.startswith("-"), limit=limit, offset=offset)
    return Answer({"asset_events": [shapes.asset_event(row) for row in found.rows], "total_entries": found.total})


@router.get("/events/{event_id}", response_model=models.ShownAssetEvent)
async def get_asset_event(event_id: int, shared: Shared) -> Answer:
    """One event, with everybody who saw it."""
    row = await show_event(shared.reads, event_id)
    return Answer(shapes.asset_event(row) | {"sightings": row["sightings"]})


@router.post("/events", response_model=models.RecordedAssetEvent | models.PrunedAssetEvent)
async def create_asset_event(
    body: models.CreateAssetEvent,
    shared: Shared,
    request: Request,
    by: Requester,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Say that an asset changed; answered once it is stored. The same key again is the same change."""

    async def record(sent: UUID) -> Answer:
        draft = change(await _named(shared.reads, body), body.key, body.extra, sighting=sent, where="body")
        crash_point("api-server.emit.before")
        [answer] = await emit(shared.writes, [replace(draft, fallback=idempotency_key)], by)
        crash_point("api-server.emit.after_commit")
        shared.wake("delivery")
        status = "stored" if answer.status == "repeated" else answer.status
        rows = (await list_events(shared.reads, EventFilter(event_id=answer.event_id))).rows
        if not rows:
            known = {"id": answer.event_id, "name": draft.asset, "key": answer.key, "status": status, "pruned": True}
            return Answer(known)
        return Answer(shapes.asset_event(rows[0]) | {"status": status})

    return await answered_once(shared.writes, request, idempotency_key, record)


@router.post("/events/recheck", response_model=models.Rechecked)
async def recheck_asset_events(body: models.Recheck, shared: Shared, by: Requester) -> Answer:
    """Judge an asset's quarantined events by the key and schema that are declared now; what is right goes on."""
    done = await intervene(recheck(shared.writes, body.asset, by=by, reason=body.reason))
    shared.wake("delivery")
    released = [{"event_id": e, "key": r.key, "same_as": r.same_as} for e, r in done.released.items()]
    left = [{"event_id": e, "flaw": flaw} for e, flaw in done.left.items()]
    return Answer({"asset": body.asset, "released": released, "left": left})


@router.post("/events/{event_id}/fix", response_model=models.MendedAssetEvent)
async def fix_asset_event(event_id: int, body: models.Fix, shared: Shared, by: Requester) -> Answer:
    """Let a quarantined event go on, with another payload or as it is. It keeps its identity and its place."""
    if ("extra" in body.model_fields_set) == body.as_is:
        raise InputError("give either extra or as_is", where="body", remedy='{"extra": {...}} or {"as_is": true}')
    how: dict[str, Any] = {"extra": body.extra, "as_it_is": body.as_is, "key": body.key}
    done = await intervene(release(shared.writes, event_id, **how, by=by, reason=body.reason))
    shared.wake("delivery")
    shown = shapes.asset_event(await show_event(shared.reads, event_id))
    return Answer(shown | {"same_as": done.same_as})


async def _named(database: Database, body: models.CreateAssetEvent) -> str:
    """The name or URI of the asset that the request is about. Raises InputError unless it names exactly one."""
    given = [value for value in (body.asset_id, body.name, body.uri) if value is not None]
    if len(given) != 1:
        raise InputError(
            f"{len(given)} of asset_id, name and uri are given", where="body", remedy="give exactly one of them"
        )
    return str(given[0]) if body.asset_id is None else await asset_name(database, body.asset_id)
