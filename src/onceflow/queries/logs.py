"""Logs of attempts, wherever they are kept: a reader gives their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from onceflow.model.errors import NotFoundError
from onceflow.queries.rows import Row
from onceflow.queries.runs import show_run
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
    dag_id, run_id, task_id = task
    ours = [a for a in attempts if a["map_index"] == map_index]
    if not ours:
        shown = await show_run(database, dag_id, run_id)
        raise NotFoundError(
            f"task {task_id!r} of run {run_id!r} has no attempt yet (the run is {shown['state']})",
            remedy=f"`onceflow tasks list {dag_id} {run_id}` lists its tasks",
        )
    if number is None:
        return ours[-1]
    for found in ours:
        if found["number"] == number:
            return found
    raise NotFoundError(
        f"task {task_id!r} has no attempt {number}", where="--attempt", remedy=f"it has {len(ours)}: 1 to {len(ours)}"
    )
