"""The lanes of people: runs made again of the same events, or of chosen ones, beside the deliveries.

A replay is always possible: it touches no delivery, so one change still starts one run in the machines' lane, and
`verify` can tell. Who wanted it, why, and what becomes of the events that it makes is stored with the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from onceflow.model.consume import Pending
from onceflow.model.dagspec import AssetSchedule
from onceflow.model.errors import ConflictError, InputError
from onceflow.model.event_filter import asks_source, judge_payload
from onceflow.model.replay import DOWNSTREAM, Downstream, Plan, consumer_schedule, plan
from onceflow.model.serialize import dumps
from onceflow.store import assets, deliveries
from onceflow.store.database import Connection, Database, Record
from onceflow.store.runs import Created
from onceflow.store.versions import Versions

MOST_EVENTS = 10_000
"""Events of one replay; it is one transaction."""
SHOWN = 10


@dataclass(frozen=True)
class Choice:
    """Which events a person means: of these assets, recorded between two times (inclusive), these ids; None is any."""

    assets: Sequence[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    events: Sequence[int] | None = None

    def as_dict(self) -> dict[str, Any]:
        """As it is kept for the record."""
        times = {name: at.isoformat() for name in ("since", "until") if (at := getattr(self, name)) is not None}
        named = {"assets": list(self.assets)} if self.assets is not None else {}
        return named | times | ({"events": list(self.events)} if self.events is not None else {})


@dataclass(frozen=True)
class Replayed:
    """The runs of a replay with their events, in order; `filtered`: events that the DAG's filters did not accept.

    `runs` is empty if it was only a rehearsal, `plan` is not.
    """

    runs: Sequence[Created]
    plan: Plan
    filtered: Mapping[int, str]
    paused: bool


async def rerun(
    database: Database,
    dag_id: str,
    run_id: str,
    *,
    by: Mapping[str, Any],
    reason: str | None = None,
    downstream: Downstream = "emit",
    request: UUID | None = None,
    now: datetime | None = None,
) -> Created | None:
    """Run a run again: exactly its events, its configuration and logical date, the DAG's present code.

    None if there is no such run of an active DAG. The same `request` again is answered with the run that it made.
    Raises InputError, and ConflictError when some of its events were pruned.
    """
    check_downstream(downstream)
    row = await database.fetchrow("runs/rerun", dag_id, run_id, downstream, dumps(dict(by)), reason, request, now)
    if row is not None and row["gone"]:
        raise _incomplete(dag_id, run_id, row["gone"], row["left_"])
    return None if row is None else Created(row["id"], row["run_id"], row["paused"])


def _incomplete(dag_id: str, run_id: str, gone: int, left: Sequence[int]) -> ConflictError:
    ids = " ".join(f"--id {event}" for event in left[:SHOWN]) + (" …" if len(left) > SHOWN else "")
    return ConflictError(
        f"{gone} of the {gone + len(left)} events of run {run_id!r} were pruned when they were old, and a run is run "
        "again with exactly its events or not at all",
        where="run",
        remedy=f"`onceflow events replay --dag {dag_id} {ids}` runs those that are left, under the DAG's condition",
        code="incomplete",
    )


async def replay(
    database: Database,
    dag_id: str,
    choice: Choice,
    *,
    by: Mapping[str, Any],
    reason: str | None = None,
    downstream: Downstream = "emit",
    rehearse: bool = False,
    request: UUID | None = None,
    now: datetime | None = None,
) -> Replayed | None:
    """Run chosen events through the DAG's present code, condition, policy and filters; `rehearse` makes no run.

    None if there is no such active DAG. The same `request` again is answered with the runs that it made. Raises
    NotFoundError for an unknown asset, InputError when nothing or too much was chosen, ConflictError when the DAG does
    not consume the events or they do not meet its condition.
    """
    check_downstream(downstream)
    found = await assets.find(database, choice.assets or ())
    names = None if choice.assets is None else sorted({ref.name for ref in found.values()})
    async with database.transaction() as tx:
        dag = await tx.fetchrow("dags/lock_active", dag_id)
        if dag is None:
            return None
        if request is not None and (made := await _made_by(tx, dag, request)) is not None:
            return made
        schedule = consumer_schedule(dag_id, await _schedule(tx, dag_id, dag["version_id"]))
        chosen = await _choose(tx, choice, names)
        unwanted = await _unwanted(tx, schedule, chosen)
        planned = plan(dag_id, schedule, chosen, unwanted)
        runs: list[Created] = []
        if planned.runs and not rehearse:
            details = choice.as_dict() | ({"filtered": unwanted} if unwanted else {})
            runs = await _create(tx, dag["id"], planned, details, by, reason, downstream, request, now)
    return Replayed(runs, planned, unwanted, dag["paused"])


def check_downstream(downstream: str) -> None:
    """Raise InputError unless it is one of the three words."""
    if downstream not in DOWNSTREAM:
        raise InputError(
            f"downstream is {downstream!r}", where="downstream", remedy=f"allowed: {', '.join(DOWNSTREAM)}"
        )


async def _made_by(tx: Connection, dag: Record, request: UUID) -> Replayed | None:
    """What the request made when it came before; None if it did not."""
    rows = await tx.fetch("runs/of_request", dag["id"], request)
    if not rows:
        return None
    filtered = {int(event): why for event, why in json.loads(rows[0]["details"]).get("filtered", {}).items()}
    explanation = json.loads(rows[0]["explanation"] or "{}")
    done = Plan(tuple(tuple(row["events"]) for row in rows), explanation)
    return Replayed([Created(r["id"], r["run_id"], dag["paused"]) for r in rows], done, filtered, dag["paused"])


async def _schedule(tx: Connection, dag_id: str, version: int) -> Any:
    versions = Versions()
    found = (await versions.read(tx, [version])).get(version)
    if found is None:
        raise ConflictError(f"DAG {dag_id!r} cannot be read: {versions.unreadable.get(version, '')}", where="dag")
    return found.spec.schedule


async def _choose(tx: Connection, choice: Choice, names: Sequence[str] | None) -> list[Pending]:
    wanted = None if choice.events is None else sorted(set(choice.events))
    rows = await tx.fetch("events/choose", names, choice.since, choice.until, wanted, MOST_EVENTS + 1)
    if wanted is not None and (gone := set(wanted) - {r["id"] for r in rows}):
        remedy = "`onceflow events list` lists what is stored"
        raise InputError(f"event {min(gone)} is not stored, or not among the rest of the choice", remedy=remedy)
    if not rows:
        raise InputError("no event was chosen", where="events", remedy="`onceflow events list` lists what is stored")
    if len(rows) > MOST_EVENTS:
        message = f"more than {MOST_EVENTS} events were chosen"
        raise InputError(message, where="events", remedy="narrow the choice, and replay in several steps")
    return [Pending(r["id"], r["asset"]) for r in rows]


async def _unwanted(tx: Connection, schedule: AssetSchedule, chosen: Sequence[Pending]) -> dict[int, str]:
    """The events that a filter does not accept, with the reason."""
    asked = {p.event_id: schedule.filters[p.asset] for p in chosen if p.asset in schedule.filters}
    sources = await deliveries.sources(tx, [event for event, wanted in asked.items() if asks_source(wanted)])
    judged = {
        event: judge_payload(asked[event], payload, sources.get(event))
        async for event, payload in deliveries.payloads(tx, asked)
    }
    return {event: verdict.reason for event, verdict in judged.items() if not verdict.accepted}


async def _create(
    tx: Connection,
    dag: int,
    planned: Plan,
    details: Mapping[str, Any],
    by: Mapping[str, Any],
    reason: str | None,
    downstream: Downstream,
    request: UUID | None,
    now: datetime | None,
) -> list[Created]:
    rows = await tx.fetch(
        "runs/replay",
        dag,
        len(planned.runs),
        [number for number, events in enumerate(planned.runs, 1) for _ in events],
        [event for events in planned.runs for event in events],
        downstream,
        dumps(dict(by)),
        reason,
        json.dumps(details),
        dumps(planned.explanation),
        request,
        now,
    )
    return [Created(r["id"], r["run_id"], r["paused"]) for r in rows]
