"""Logs of attempts, wherever they are kept: a reader gives their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from onceflow.model.errors import NotFoundError
from onceflow.queries.rows import Row, collect
from onceflow.queries.runs import show_run
from onceflow.queries.tasks import stream_tasks
from onceflow.runtime.logs import attempt_log
from onceflow.store.database import Database

BLOCK = 1 << 16


class LogReader(Protocol):
    """Reads the log of an attempt by the ids of its run and task, never by names that users chose."""

    def read(self, run: int, task: int, attempt: int) -> Iterator[bytes]:
        """The log's bytes, in blocks. Raises NotFoundError when there is no log, or none any more."""
        ...


class LocalLogs:
    """Logs on this machine, where `runtime/logs.py` says."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def read(self, run: int, task: int, attempt: int) -> Iterator[bytes]:
        path = Path(attempt_log(self._home, run, task, attempt))
        try:
            with path.open("rb") as log:
                while block := log.read(BLOCK):
                    yield block
        except FileNotFoundError:
            raise NotFoundError(
                "the log is not on this machine",
                where=str(path),
                remedy="ask on the machine of the worker that ran it, with the same --home",
            ) from None


async def choose_attempt(
    database: Database, attempts: Sequence[Row], task: tuple[str, str, str], map_index: int, number: int | None
) -> Row:
    """The attempt asked for, the last if `number` is None. Raises NotFoundError saying what there is instead."""
    task_id = task[2]
    ours = [a for a in attempts if a["map_index"] == map_index]
    if not ours:
        raise await _no_attempt(database, task, map_index)
    if number is None:
        return ours[-1]
    for found in ours:
        if found["number"] == number:
            return found
    raise NotFoundError(
        f"task {task_id!r} has no attempt {number}", where="--attempt", remedy=f"it has {len(ours)}: 1 to {len(ours)}"
    )


async def _no_attempt(database: Database, task: tuple[str, str, str], map_index: int) -> NotFoundError:
    """Why there is nothing to read: no such run, no such task, or a task that was not started."""
    dag_id, run_id, task_id = task
    run = await show_run(database, dag_id, run_id)
    known = await collect(stream_tasks(database, dag_id, run_id))
    state = next((t["state"] for t in known if (t["task_id"], t["map_index"]) == (task_id, map_index)), None)
    name = f"task {task_id!r}" + (f" with map index {map_index}" if map_index >= 0 else "")
    if not known:
        message = f"{name} has no attempt yet: the run is {run['state']}"
    else:
        message = f"{name} has no attempt: it is {state}" if state else f"the run has no {name}"
    remedy = f"`onceflow tasks list {dag_id} {run_id}` lists its tasks"
    return NotFoundError(message, where=f"run {run_id}", remedy=remedy)
