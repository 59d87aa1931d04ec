"""What people do beside the machines: run again, replay, discard, release. Each is recorded with who asked and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response

from onceflow.api import models, shapes
from onceflow.api.replay import IdempotencyKey, answered_once
from onceflow.api.services import Answer, Requester, Services, Shared, intervene, moment
from onceflow.queries.dags import no_such_dag, show_dag
from onceflow.queries.runs import not_rerun, show_run
from onceflow.store import storms
from onceflow.store.interventions import Scope, Settled, discard, release
from onceflow.store.lanes import Choice, Replayed, replay, rerun

router = APIRouter(prefix="/api/v2/dags/{dag_id}")


@router.post("/dagRuns/{dag_run_id}/rerun", response_model=models.DagRun, tags=["DagRun"])
async def rerun_dag_run(
    dag_id: str,
    dag_run_id: str,
    body: models.Rerun,
    shared: Shared,
    request: Request,
    by: Requester,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Run a run again: exactly its events, configuration and logical date, with the DAG's present code."""

    async def again(sent: UUID) -> Answer:
        how: dict[str, Any] = {"by": by, "reason": body.reason, "downstream": body.downstream}
        made = await intervene(
            rerun(shared.writes, dag_id, dag_run_id, request=sent if idempotency_key else None, **how)
        )
        if made is None:
            raise await not_rerun(shared.reads, dag_id, dag_run_id)
        shared.wake("run", "dag")
        return Answer(shapes.dag_run(await show_run(shared.reads, dag_id, made.run_id)))

    return await answered_once(shared.writes, request, idempotency_key, again)


@router.post("/replay", response_model=models.Replayed, tags=["DagRun"])
async def replay_events(
    dag_id: str,
    body: models.Replay,
    shared: Shared,
    request: Request,
    by: Requester,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Run stored events through the DAG's present code, condition, policy and filters; no delivery is touched."""
    choice = Choice(body.assets, moment(body.since, "body.since"), moment(body.until, "body.until"), body.events)
    how: dict[str, Any] = {"by": by, "reason": body.reason, "downstream": body.downstream, "rehearse": body.rehearse}

    async def perform(sent: UUID) -> Answer:
        done = await intervene(replay(shared.writes, dag_id, choice, request=sent if idempotency_key else None, **how))
        if done is None:
            raise await no_such_dag(shared.reads, dag_id)
        shared.wake("run", "dag")
        return _replayed(done)

    return await answered_once(shared.writes, request, idempotency_key, perform)


def _replayed(done: Replayed) -> Answer:
    names = [made.run_id for made in done.runs] or [None] * len(done.plan.runs)
    runs = [{"dag_run_id": n, "events": list(e)} for n, e in zip(names, done.plan.runs, strict=True)]
    return Answer({"runs": runs, "filtered": [{"event_id": e, "reason": r} for e, r in done.filtered.items()]})


@router.post("/deliveries/discard", response_model=models.SettledDeliveries, tags=["Delivery"])
async def discard_deliveries(dag_id: str, body: models.Settle, shared: Shared, by: Requester) -> Answer:
    """End deliveries to the DAG that are pending or held: all, or those of some events or of an asset."""
    scope = Scope(dag_id, body.events, body.asset)
    done = await intervene(discard(shared.writes, scope, by=by, reason=body.reason))
    return await _settled(shared, dag_id, done)


@router.post("/deliveries/release", response_model=models.SettledDeliveries, tags=["Delivery"])
async def release_deliveries(dag_id: str, body: models.Settle, shared: Shared, by: Requester) -> Answer:
    """Give held deliveries back to be judged: all, or those of some events or of an asset."""
    scope = Scope(dag_id, body.events, body.asset)
    done = await intervene(release(shared.writes, scope, by=by, reason=body.reason))
    return await _settled(shared, dag_id, done)


@router.post("/release", response_model=models.SettledDeliveries, tags=["DAG"])
async def release_dag(dag_id: str, body: models.Release, shared: Shared, by: Requester) -> Answer:
    """Let a DAG consume again after a storm, and say what becomes of the events held by it or as a loop."""
    ended = await intervene(storms.release(shared.writes, dag_id, body.how, rate=body.rate, by=by, reason=body.reason))
    if ended is None:
        raise await no_such_dag(shared.reads, dag_id)
    shared.wake("delivery", "release")
    return Answer({"dag_id": dag_id, "deliveries": ended.deliveries})


async def _settled(shared: Services, dag_id: str, done: Sequence[Settled]) -> Answer:
    if not done:
        await show_dag(shared.reads, dag_id)  # no such DAG is not an empty list
    shared.wake("delivery")
    return Answer({"dag_id": dag_id, "deliveries": sum(s.deliveries for s in done)})
