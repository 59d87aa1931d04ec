"""Answers what a running task asks: XComs, the events that triggered its run, events of its inlets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from onceflow.model.errors import FencedError, InputError
from onceflow.model.limits import check_xcom
from onceflow.model.times import to_rfc3339
from onceflow.runtime.crash_points import crash_point
from onceflow.store.database import Database
from onceflow.store.tasks import ClaimedTask


async def answer(database: Database, task: ClaimedTask, question: Mapping[str, Any]) -> Any:
    """The answer to one question, as a JSON value. Raises OnceflowError with what is wrong about it."""
    match question["op"]:
        case "xcom_get":
            text = await database.fetchval(
                "xcoms/read", task.run, question["task_id"], question["key"], -1, question["run_id"]
            )
            return None if text is None else json.loads(text)
        case "xcom_set":
            await _put(database, task, question["key"], json.dumps(question["value"]))
            return None
        case "triggering_events":
            return [_event(r) for r in await database.fetch("tasks/events_of_run", task.run)]
        case "inlet_events":
            rows = await database.fetch("assets/latest_events", question["asset"], question["limit"])
            return [_event(r) for r in rows]
        case other:
            raise InputError(f"unknown request {other!r} of a task")


async def _put(database: Database, task: ClaimedTask, key: str, value: str) -> None:
    check_xcom(value, f"XCom {key!r} of task {task.task_id!r}")
    crash_point("worker.xcom.before")
    stored = await database.fetchrow("xcoms/put_if_attempt", task.id, task.token, key, value)
    crash_point("worker.xcom.after_commit")
    if stored is None:
        raise FencedError("this attempt is no longer the task's current one")


def _event(row: Any) -> dict[str, Any]:
    return {
        "id": row["id"],
        "asset": row["asset"],
        "uri": row["uri"],
        "key": row["key"],
        "extra": json.loads(row["extra"]),
        "created_at": to_rfc3339(row["created_at"]),
        "source": json.loads(row["source"]),
    }
