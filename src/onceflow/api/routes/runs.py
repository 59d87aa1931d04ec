"""Runs: list, show, start by hand."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from fastapi import APIRouter, Request, Response

from onceflow.api import models, shapes
from onceflow.api.replay import IdempotencyKey, answered_once
from onceflow.api.services import Answer, Limit, Offset, Requester, Shared, moment
from onceflow.queries.dags import no_such_dag, show_dag
from onceflow.queries.runs import RunFilter, list_runs, show_run
from onceflow.runtime.crash_points import crash_point
from onceflow.store.runs import create_manual

router = APIRouter(prefix="/api/v2/dags/{dag_id}/dagRuns", tags=["DagRun"])

EVERY = "~"
"""Stands for all DAGs in the path, as in Airflow."""


@router.get("", response_model=models.DagRunCollection)
async def get_dag_runs(
    *,
    dag_id: str,
    shared: Shared,
    limit: Limit = 50,
    offset: Offset = 0,
    state: Literal["queued", "running", "success", "failed"] | None = None,
    run_type: Literal["asset_triggered", "scheduled", "manual", "rerun", "replay"] | None = None,
    queued_at_gte: str | None = None,
    queued_at_lte: str | None = None,
    order_by: Literal["id", "-id", "queued_at", "-queued_at"] = "id",
) -> Answer:
    """Runs in the order of their creation, or newest first; `~` as the DAG is every DAG."""
    chosen = RunFilter(
        dag_id=None if dag_id == EVERY else dag_id,
        state=state,
        run_type=run_type,
        since=moment(queued_at_gte, "queued_at_gte"),
        until=moment(queued_at_lte, "queued_at_lte"),
    )
    found = await list_runs(shared.reads, chosen, newest=order_by.startswith("-"), limit=limit, offset=offset)
    if not found.total and dag_id != EVERY:
        await show_dag(shared.reads, dag_id)  # no such DAG is not an empty list
    return Answer({"dag_runs": [shapes.dag_run(row) for row in found.rows], "total_entries": found.total})


@router.get("/{dag_run_id}", response_model=models.DagRun)
async def get_dag_run(dag_id: str, dag_run_id: str, shared: Shared) -> Answer:
    """One run, with the ids of the events it consumed."""
    return Answer(shapes.dag_run(await show_run(shared.reads, dag_id, dag_run_id)))


@router.post("", response_model=models.DagRun)
async def trigger_dag_run(
    dag_id: str,
    body: models.TriggerDagRun,
    shared: Shared,
    request: Request,
    by: Requester,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Start a run by hand. It stays queued while its DAG is paused."""

    async def trigger(sent: UUID) -> Answer:
        crash_point("api-server.trigger.before")
        made = await create_manual(
            shared.writes,
            dag_id,
            conf=body.conf,
            logical_date=moment(body.logical_date, "body.logical_date"),
            by=by,
            request=sent if idempotency_key else None,
        )
        crash_point("api-server.trigger.after_commit")
        if made is None:
            raise await no_such_dag(shared.reads, dag_id)
        shared.wake("run", "dag")
        return Answer(shapes.dag_run(await show_run(shared.reads, dag_id, made.run_id)))

    return await answered_once(shared.writes, request, idempotency_key, trigger)
