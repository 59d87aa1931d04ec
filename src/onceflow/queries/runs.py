"""Runs, as people see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onceflow.model.errors import ConflictError, NotFoundError, OnceflowError
from onceflow.queries.dags import check_dag
from onceflow.queries.rows import Page, Row, Rows, page, stream
from onceflow.store.database import Database


@dataclass(frozen=True)
class RunFilter:
    """Which runs; None is any."""

    dag_id: str | None = None
    state: str | None = None
    run_type: str | None = None
    run_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def arguments(self) -> tuple[Any, ...]:
        return self.dag_id, self.state, self.run_type, self.run_id, self.since, self.until


ANY = RunFilter()


def stream_runs(database: Database, chosen: RunFilter = ANY, *, newest: bool = False, limit: int | None = None) -> Rows:
    """Runs with the ids of the events they consumed, in the order in which they were created, or newest first."""
    return stream(database, "runs/list", *chosen.arguments(), newest, limit, 0)


async def list_runs(
    database: Database, chosen: RunFilter = ANY, *, newest: bool = False, limit: int | None = None, offset: int = 0
) -> Page:
    """A page of runs."""
    return await page(database, "runs/list", *chosen.arguments(), newest, limit, offset)


async def show_run(database: Database, dag_id: str, run_id: str) -> Row:
    """One run as it is listed. Raises NotFoundError."""
    found = await list_runs(database, RunFilter(dag_id=dag_id, run_id=run_id))
    if not found.rows:
        await check_dag(database, dag_id)
        raise NotFoundError(
            f"DAG {dag_id!r} has no run {run_id!r}", remedy=f"`onceflow runs list {dag_id}` lists its runs"
        )
    return found.rows[0]


async def not_rerun(database: Database, dag_id: str, run_id: str) -> OnceflowError:
    """The error for a run that cannot be run again. Raises NotFoundError if there is none."""
    await show_run(database, dag_id, run_id)
    return ConflictError(
        f"no DAG file defines {dag_id!r} any more, so its runs cannot be run again",
        where="dag",
        remedy="bring the file back; `onceflow dags errors` lists files that cannot be read",
    )
