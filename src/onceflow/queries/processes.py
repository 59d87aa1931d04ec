"""Processes, as people see them, and the health of the whole."""

from __future__ import annotations

from onceflow.queries.rows import Row, Rows, plain, stream
from onceflow.store.database import Database

KINDS = ("scheduler", "triggerer", "dag-processor", "worker", "api-server")


def stream_processes(database: Database, kind: str | None = None, limit: int | None = None) -> Rows:
    """Processes in the order of their start; `state` is running, silent (its lease ran out), stopped or dead.

    `ready`: it does its work, too, which a process that lives may fail to do.
    """
    return stream(database, "processes/list", kind, limit)


async def health(database: Database) -> dict[str, Row]:
    """Per kind of process: how many hold their lease (`live`) and do their work, too (`ready`); the last sign of life
    (`last_seen`).
    """
    found = {r["kind"]: plain(r, ("kind",)) for r in await database.fetch("processes/health")}
    return {kind: found.get(kind, {"last_seen": None, "live": 0, "ready": 0}) for kind in KINDS}
