"""Task instances and their attempts, as people see them."""

from __future__ import annotations

from onceflow.queries.rows import Row, Rows, plain, stream
from onceflow.store.database import Database


def stream_tasks(
    database: Database,
    dag_id: str | None = None,
    run_id: str | None = None,
    state: str | None = None,
    limit: int | None = None,
) -> Rows:
    """Tasks with the outcome of their last attempt, by run and place in the DAG; None is any."""
    return stream(database, "tasks/list", dag_id, run_id, state, limit)


async def list_attempts(database: Database, dag_id: str, run_id: str, task_id: str | None = None) -> list[Row]:
    """Every attempt of a run's tasks, or of one of them, in order."""
    return [plain(r) for r in await database.fetch("tasks/attempts", dag_id, run_id, task_id)]
