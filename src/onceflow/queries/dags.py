"""DAGs, as people see them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from onceflow.model.asset_expr import to_text
from onceflow.model.errors import NotFoundError
from onceflow.queries.rows import Page, Row, Rows, page, plain, stream
from onceflow.store.database import Database


@dataclass(frozen=True)
class DagFilter:
    """Which DAGs; None is any. `like` is a part of the dag_id, in any case."""

    dag_id: str | None = None
    like: str | None = None
    active: bool | None = None
    paused: bool | None = None

    def arguments(self) -> tuple[Any, ...]:
        return self.dag_id, self.like, self.active, self.paused


ANY = DagFilter()


async def list_dags(database: Database, chosen: DagFilter = ANY, *, limit: int | None = None, offset: int = 0) -> Page:
    """A page of DAGs by dag_id: schedule, file, runs that are going on, deliveries that wait, the last run."""
    found = await page(database, "dags/list", *chosen.arguments(), limit, offset)
    return Page([_with_schedule_text(row) for row in found.rows], found.total)


async def show_dag(database: Database, dag_id: str) -> Row:
    """One DAG as it is listed, with its tasks, subscriptions, last judgement and spec. Raises NotFoundError."""
    listed = (await list_dags(database, DagFilter(dag_id=dag_id))).rows
    stored = await database.fetchrow("dags/show", dag_id)
    if not listed or stored is None:
        raise await no_such_dag(database, dag_id)
    shown = listed[0] | plain(stored)
    spec = shown["spec"] or {}
    shown["tasks"] = [
        {"task_id": t["task_id"], "upstream": t["upstream"], "operator": t["operator"]} for t in spec.get("tasks", ())
    ]
    return shown


def stream_errors(database: Database, limit: int | None = None) -> Rows:
    """Files that cannot be parsed: the failure with its place and remedy, and the DAGs that keep their last version."""
    return stream(database, "files/errors", limit)


def stream_warnings(database: Database, limit: int | None = None) -> Rows:
    """What is no error in a DAG file and may surprise its author, with its place; also of files that define no DAG."""
    return stream(database, "files/warnings", limit)


async def check_dag(database: Database, dag_id: str) -> None:
    """Raises NotFoundError if no DAG of that id was ever registered."""
    if await database.fetchrow("dags/show", dag_id) is None:
        raise await no_such_dag(database, dag_id)


async def no_such_dag(database: Database, dag_id: str) -> NotFoundError:
    """The error for a dag_id that does not exist, with the closest that do; its file may be one that cannot be read."""
    known = [r["dag_id"] for r in await database.fetch("dags/similar", dag_id, 1000)]
    broken = "`onceflow dags errors` lists files that cannot be read"
    if not known:
        return NotFoundError(f"there is no DAG {dag_id!r}", remedy=f"no DAG file was read yet; {broken}")
    close = difflib.get_close_matches(dag_id, known, n=3, cutoff=0.5)
    named = f"did you mean {' or '.join(close)}?" if close else "`onceflow dags list` lists those there are;"
    remedy = f"{named} {broken}"
    return NotFoundError(f"there is no DAG {dag_id!r}", remedy=remedy)


def schedule_text(schedule: dict[str, Any] | None) -> str:
    """A schedule in a few words: `orders & prices (all)`, `orders (each, filtered)`, `0 6 * * * UTC`, `once`."""
    if not schedule:
        return "none"
    kind = schedule["kind"]
    if kind == "asset":
        filtered = ", filtered" if schedule.get("filters") else ""
        return f"{to_text(schedule['condition'])} ({schedule['policy']}{filtered})"
    if kind == "cron":
        return f"{schedule['expression']} {schedule['timezone']}"
    return f"every {schedule['seconds']:g} s" if kind == "interval" else kind


def _with_schedule_text(row: Row) -> Row:
    return row | {"schedule_text": schedule_text(row["schedule"])}
