"""Tasks and attempts: advancing, claiming, renewing, finishing, rescuing (G6).

Start and finish of an attempt are a compare-and-set on its number and token; a report that was stored before is
answered again, one that comes too late changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from onceflow.model.change import Change
from onceflow.model.states import LOST_LIMIT, Outcome, RunState, TaskState
from onceflow.store.database import Connection, Database

RUNS_PER_BATCH = 100
RUN_FIELDS = ("run_name", "run_type", "logical_date", "conf", "created_at", "started_at", "downstream")


@dataclass(frozen=True)
class RunTasks:
    """A locked run and its tasks. `due`: those whose retry time has come; `unsettled`: ids of tasks to settle."""

    run: int
    dag: int
    version: int
    running: bool
    ids: dict[str, int]
    states: dict[str, TaskState]
    due: frozenset[str]
    unsettled: list[int]


@dataclass
class Advance:
    """What to write: task changes as (id, old, new), settled ids, ended runs."""

    changes: list[tuple[int, TaskState, TaskState]] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)
    ended: list[tuple[int, RunState]] = field(default_factory=list)


@dataclass(frozen=True)
class ClaimedTask:
    """An attempt that a worker was given; the fields of the run are for the task's context."""

    id: int
    run: int
    task_id: str
    map_index: int
    attempt: int
    token: UUID
    failures: int
    version: int
    source_hash: str
    dag_id: str
    run_fields: Mapping[str, Any]


@dataclass(frozen=True)
class Report:
    """How an attempt ended and what becomes of its task. JSON texts: `error`, `value` (return value), `skip`."""

    task: int
    attempt: int
    token: UUID
    state: TaskState
    outcome: Outcome
    exit_code: int | None = None
    error: str | None = None
    retry_seconds: float | None = None
    value: str | None = None
    skip: str | None = None
    changes: Sequence[Change] = ()
    source: str = "{}"


FinishStatus = Literal["finished", "repeated", "fenced"]


async def find_unsettled(database: Database, limit: int = RUNS_PER_BATCH, now: datetime | None = None) -> list[int]:
    """Ids of runs with something to do: a task ended, or a retry is due."""
    return [r["run_id"] for r in await database.fetch("tasks/find_unsettled", limit, now)]


async def claim_of_runs(tx: Connection, runs: Sequence[int], now: datetime | None = None) -> list[RunTasks]:
    """Lock the runs that nobody else holds and read their tasks."""
    found = []
    for row in await tx.fetch("tasks/claim_of_runs", list(runs), now):
        names = row["task_id"]
        found.append(
            RunTasks(
                row["run"],
                row["dag"],
                row["version"],
                row["state"] == "running",
                dict(zip(names, row["task"], strict=True)),
                {n: TaskState(s) for n, s in zip(names, row["task_state"], strict=True)},
                frozenset(n for n, due in zip(names, row["due"], strict=True) if due),
                [t for t, settled in zip(row["task"], row["settled"], strict=True) if not settled],
            )
        )
    return found


async def advance(tx: Connection, plan: Advance, now: datetime | None = None) -> None:
    await tx.execute(
        "tasks/advance",
        [c[0] for c in plan.changes],
        [c[1].value for c in plan.changes],
        [c[2].value for c in plan.changes],
        plan.settled,
        [e[0] for e in plan.ended],
        [e[1].value for e in plan.ended],
        now,
    )


async def claim(
    database: Database,
    worker: UUID,
    limit: int,
    lease_seconds: float,
    *,
    executor: str = "local",
    queues: Sequence[str] = ("default",),
    now: datetime | None = None,
) -> list[ClaimedTask]:
    """Take up to `limit` queued tasks, best priority first; raises each one's attempt and issues its token."""
    rows = await database.fetch("tasks/claim", worker, limit, executor, list(queues), lease_seconds, now)
    return [
        ClaimedTask(
            r["id"], r["run_id"], r["task_id"], r["map_index"], r["attempt"], r["token"], r["failures"],
            r["version_id"], r["source_hash"], r["dag_id"],
            {k: r[k] for k in RUN_FIELDS},
        )
        for r in rows
    ]  # fmt: skip


async def renew(database: Database, worker: UUID, held: Sequence[tuple[int, UUID]], lease_seconds: float) -> set[int]:
    """Renew the leases of exactly these (task, token); returns the tasks that are still the worker's."""
    if not held:
        return set()
    tasks, tokens = zip(*held, strict=True)
    return {r["id"] for r in await database.fetch("tasks/renew", worker, list(tasks), list(tokens), lease_seconds)}


async def finish(
    database: Database,
    worker: UUID,
    reports: Sequence[Report],
    assets: Mapping[str, int],
    now: datetime | None = None,
) -> list[FinishStatus]:
    """Store how attempts ended, each with its return value and outlet events, in one transaction."""
    events = [(i, r, c) for i, r in enumerate(reports, 1) for c in r.changes]
    rows = await database.fetch(
        "tasks/finish_if_attempt",
        worker,
        [r.task for r in reports],
        [r.attempt for r in reports],
        [r.token for r in reports],
        [r.state.value for r in reports],
        [r.outcome.value for r in reports],
        [r.exit_code for r in reports],
        [r.error for r in reports],
        [r.retry_seconds for r in reports],
        [r.value for r in reports],
        [r.skip for r in reports],
        [i for i, _, _ in events],
        [assets[c.asset] for _, _, c in events],
        [c.sighting for _, _, c in events],
        [c.hash for _, _, c in events],
        [c.key for _, _, c in events],
        [c.extra for _, _, c in events],
        [r.source for _, r, _ in events],
        [c.flaw for _, _, c in events] if any(c.flaw for _, _, c in events) else None,
        now,
    )
    return [r["status"] for r in sorted(rows, key=lambda r: r["n"])]


async def rescue(database: Database, *, take_over: bool, limit: int = 500, now: datetime | None = None) -> int:
    """Queue again the tasks whose worker vanished, or fail those lost too often; returns how many."""
    return len(await database.fetch("tasks/rescue", limit, LOST_LIMIT, take_over, now))
