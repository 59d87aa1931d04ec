"""Why a run, what became of an event, why no run: as `onceflow why` and `why-not` tell it, in the same words."""

from __future__ import annotations

from fastapi import APIRouter

from onceflow.api import models
from onceflow.api.services import Answer, Shared, moment
from onceflow.queries.why import why_event, why_run
from onceflow.queries.why_not import why_not

router = APIRouter(prefix="/api/v2", tags=["Explain"])


@router.get("/dags/{dag_id}/dagRuns/{dag_run_id}/why", response_model=models.WhyRun)
async def get_why_run(dag_id: str, dag_run_id: str, shared: Shared) -> Answer:
    """Why a run was made: the events, the condition with each leaf's truth, the policy, the scheduler, the time."""
    return Answer(await why_run(shared.reads, dag_id, dag_run_id))


@router.get("/assets/events/{event_id}/why", response_model=models.WhyEvent)
async def get_why_event(event_id: int, shared: Shared) -> Answer:
    """What became of an event for every consumer, and what an open delivery waits for."""
    return Answer(await why_event(shared.reads, event_id))


@router.get("/dags/{dag_id}/why-not", response_model=models.WhyNot)
async def get_why_not(dag_id: str, shared: Shared, since: str | None = None) -> Answer:
    """What keeps a DAG from a run, and what was decided `since` then (default: since its last run was made)."""
    return Answer(await why_not(shared.reads, dag_id, moment(since, "since")))
