"""DAGs: list, show, pause."""

from __future__ import annotations

from fastapi import APIRouter

from onceflow.api import models, shapes
from onceflow.api.services import Answer, Limit, Offset, Requester, Shared, intervene
from onceflow.model.errors import InputError
from onceflow.queries.dags import DagFilter, list_dags, no_such_dag, show_dag
from onceflow.store.dags import pause, unpause

router = APIRouter(prefix="/api/v2/dags", tags=["DAG"])


@router.get("", response_model=models.DagCollection)
async def get_dags(
    *,
    shared: Shared,
    limit: Limit = 50,
    offset: Offset = 0,
    dag_id_pattern: str | None = None,
    paused: bool | None = None,
    exclude_stale: bool = True,
) -> Answer:
    """DAGs by dag_id; `dag_id_pattern` is a part of it."""
    chosen = DagFilter(like=dag_id_pattern, paused=paused, active=True if exclude_stale else None)
    found = await list_dags(shared.reads, chosen, limit=limit, offset=offset)
    return Answer({"dags": [shapes.dag(row) for row in found.rows], "total_entries": found.total})


@router.get("/{dag_id}", response_model=models.Dag)
async def get_dag(dag_id: str, shared: Shared) -> Answer:
    """One DAG."""
    return Answer(shapes.dag(await show_dag(shared.reads, dag_id)))


@router.patch("/{dag_id}", response_model=models.Dag)
async def patch_dag(dag_id: str, body: models.DagPatch, shared: Shared, by: Requester) -> Answer:
    """Pause a DAG, or let it run again with the events that wait for it: judged as ever, joined, or discarded."""
    if body.is_paused and body.pending != "each":
        raise InputError(
            f"pending={body.pending!r} with is_paused=true", where="pending", remedy="it goes with a resume"
        )
    if body.is_paused:
        changed = await intervene(pause(shared.writes, dag_id, by=by, reason=body.reason))
    else:
        changed = await intervene(unpause(shared.writes, dag_id, body.pending, by=by, reason=body.reason))
    if changed is None:
        raise await no_such_dag(shared.reads, dag_id)
    shared.wake("delivery", "run", "dag")
    return Answer(shapes.dag(await show_dag(shared.reads, dag_id)))
