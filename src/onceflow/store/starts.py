"""Starting queued runs, under their DAG's lock and cap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from onceflow.model.states import TaskState
from onceflow.store.database import Connection, Database
from onceflow.store.versions import Version

RUNS_PER_DAG = 200


@dataclass(frozen=True)
class Startable:
    run: int
    dag: int
    version: int


async def find_startable(database: Database, limit: int, after: int = 0) -> list[int]:
    """Ids, in order and above `after`, of DAGs with queued runs that are below their `max_active_runs`."""
    return [r["dag_id"] for r in await database.fetch("runs/find_startable", limit, after)]


async def claim_startable(tx: Connection, dags: Sequence[int], limit: int = RUNS_PER_DAG) -> list[Startable]:
    """Lock the DAGs that nobody else holds; the runs that may start now, in order."""
    rows = await tx.fetch("runs/claim_startable", list(dags), limit)
    return [Startable(r["run"], r["dag"], r["version"]) for r in rows]


async def start(
    tx: Connection,
    runs: Sequence[int],
    version: Version,
    states: Mapping[str, TaskState],
    now: datetime | None = None,
) -> None:
    """Start queued runs of one version, with the states their tasks begin in."""
    tasks = version.spec.tasks
    await tx.execute(
        "runs/start",
        list(runs),
        version.id,
        version.spec.dagrun_timeout,
        list(range(len(tasks))),
        [t.task_id for t in tasks],
        [states[t.task_id].value for t in tasks],
        [t.priority_weight for t in tasks],
        [t.executor for t in tasks],
        [t.queue for t in tasks],
        now,
    )
