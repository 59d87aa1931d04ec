"""Health, without a token: whether this process answers, whether it can work, whether the whole does."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from onceflow.api.services import Shared
from onceflow.model.errors import OnceflowError, UnreachableError
from onceflow.queries.processes import health
from onceflow.store.migrate import check
from onceflow.store.waiting import done_within

PATIENCE = 2.0
"""Seconds within which the database has to answer."""

router = APIRouter(tags=["Monitor"])


@router.get("/health")
async def get_health() -> dict[str, str]:
    """The process lives; nothing is asked of the database."""
    return {"status": "ok"}


@router.get("/ready")
async def get_ready(shared: Shared) -> dict[str, str]:
    """The database answers and has the right schema; 503 if not."""
    try:
        reason = await done_within(check(shared.reads.url), PATIENCE)
    except TimeoutError:
        reason = "it does not answer"
    if reason:
        raise UnreachableError(reason, where="database", remedy="run `onceflow db migrate`")
    return {"status": "ready"}


@router.get("/api/v2/monitor/health")
async def get_monitor_health(shared: Shared) -> dict[str, dict[str, Any]]:
    """Per kind of process whether one lives, in Airflow's form; always 200."""
    try:
        kinds = await done_within(health(shared.reads), PATIENCE)
    except (OnceflowError, TimeoutError):
        return {"metadatabase": {"status": "unhealthy"}}
    report: dict[str, dict[str, Any]] = {"metadatabase": {"status": "healthy"}}
    for kind, seen in kinds.items():
        name = kind.replace("-", "_")
        report[name] = {
            "status": "healthy" if seen["live"] else "unhealthy",
            f"latest_{name}_heartbeat": seen["last_seen"],
            "processes": seen["live"],
            "ready": seen["ready"],
        }
    return report
