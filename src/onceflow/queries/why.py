"""Why a run exists, and what became of an event, told from stored rows alone: no later edit changes the answer."""

from __future__ import annotations

import json
from typing import Any

from onceflow.model.errors import NotFoundError
from onceflow.queries import explain
from onceflow.queries.events import SIGHTINGS
from onceflow.queries.processes import health
from onceflow.queries.rows import Row, plain
from onceflow.queries.runs import show_run
from onceflow.store.database import Database


async def why_run(database: Database, dag_id: str, run_id: str) -> dict[str, Any]:
    """The run, the decision that made it with its explanation, the events it consumed; `because` says it in sentences.

    Raises NotFoundError.
    """
    run = await show_run(database, dag_id, run_id)
    [stored] = await database.fetch("runs/why", dag_id, run_id)
    decided = plain(stored)
    events = [plain(r) for r in await database.fetch("events/of_run", dag_id, run_id)]
    return {
        "run": run,
        "because": _run_sentences(run, decided, events),
        "decision": {
            "id": decided["decision"],
            "decided_at": decided["decided_at"],
            "process": decided["process_id"],
            "version": decided["decided_version"],
            "explanation": decided["explanation"],
        }
        if decided["decision"] is not None
        else None,
        "events": [e | {"because": explain.source_text(e["source"])} for e in events],
    }


def _run_sentences(run: Row, decided: Row, events: list[Row]) -> list[str]:
    sentences = [_beginning(run, decided, events)]
    sentences += explain.decision_lines(decided["explanation"], [e["asset"] for e in events])
    if run["downstream"] in explain.DOWNSTREAM:
        sentences.append(explain.DOWNSTREAM[run["downstream"]])
    if run["pruned_events"]:
        sentences.append(f"{run['pruned_events']} more of its events were pruned when they were old")
    if run["state"] == "queued":
        sentences.append(f"it is queued: {explain.queued_text(decided)}")
    elif run["end_reason"]:
        sentences.append(f"it ended as {run['state']} because: {run['end_reason']}")
    return sentences


def _beginning(run: Row, decided: Row, events: list[Row]) -> str:
    maker = f"made at {run['created_at']} by {explain.origin(run['created_by'])}"
    if run["run_type"] == "scheduled":
        return f"{maker} for the slot {run['logical_date']} of its schedule"
    if decided["intervention_made"] is not None:
        return f"{maker}: {explain.lane_text(decided['intervention_made'])}"
    starter = next((e for e in events if e["disposition"] == "started"), None)
    if starter is None:
        return maker
    others = f", together with {len(events) - 1} more" if len(events) > 1 else ""
    key = f" (key {starter['key']})" if starter["key"] else ""
    return f"{maker} for event {starter['id']} of asset {starter['asset']}{key}{others}"


async def why_event(database: Database, event_id: int) -> dict[str, Any]:
    """The event, who saw it, and per consumer what became of it; each delivery's `because` is a sentence.

    `not_subscribed`: DAGs that get the asset's events at other times, with when.

    Raises NotFoundError.
    """
    found = await database.fetch("events/show", event_id)
    if not found:
        remedy = "`onceflow events list` lists them; an old one may have been pruned, and some numbers are never used"
        raise NotFoundError(f"there is no event {event_id}", remedy=remedy)
    event = plain(found[0])
    witnesses = [plain(r) for r in await database.fetch("events/witnesses", event_id, SIGHTINGS)]
    schedulers = (await health(database))["scheduler"]["live"]
    deliveries = [plain(r) for r in await database.fetch("deliveries/of_event", event_id)]
    beside = [plain(r) for r in await database.fetch("events/runs_beside", event_id)]
    others = [plain(r) for r in await database.fetch("assets/not_subscribed", event_id)]
    rounds = await database.fetchval("events/cause", event_id)
    return {
        "event": event,
        "because": _event_sentences(event, witnesses, deliveries) + _causes(json.loads(rounds)),
        "witnesses": witnesses,
        "deliveries": [d | {"because": explain.delivery_text(d, schedulers)} for d in deliveries],
        "not_subscribed": [o | {"because": explain.not_subscribed_text(o)} for o in others],
        "runs_beside": [r | {"because": _beside(r)} for r in beside],
    }


def _causes(rounds: dict[str, str]) -> list[str]:
    """Through which DAGs the change has come; one that stands there more than once has gone round."""
    if not rounds:
        return []
    return [
        "the change has come through " + ", ".join(f"{n} runs of {d}" if n != "1" else d for d, n in rounds.items())
    ]


def _beside(run: Row) -> str:
    """A run that a person made of the event, beside its deliveries."""
    who = f"made at {run['created_at']} by {explain.origin(run['created_by'])}{explain.because(run['reason'])}"
    return f"{run['run_type']} {run['run_id']}, which is {run['run_state']}, {who}"


def _event_sentences(event: Row, witnesses: list[Row], deliveries: list[Row]) -> list[str]:
    seen = f"stored at {event['created_at']}, seen by {explain.source_text(event['source'])}"
    sentences = [f"{seen}; {explain.identity_text(event)}"]
    sentences += explain.quarantine_lines(event)
    if witnesses:
        differing = sum(1 for w in witnesses if w["differs"])
        doubt = f"; {differing} of them with another payload" if differing else ""
        last = explain.seconds_text(witnesses[-1]["behind_seconds"])
        behind = f"the last one {last} behind the first"
        again = "once" if len(witnesses) == 1 else f"{len(witnesses)} times"
        sentences.append(f"seen {again} more, which made no further event{doubt}; {behind}")
    if not deliveries:
        sentences.append("no DAG was subscribed to the asset when it was stored")
    return sentences
