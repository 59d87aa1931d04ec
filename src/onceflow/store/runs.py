"""Runs made by people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from onceflow.model.conf import check_conf
from onceflow.model.errors import ConflictError, InputError
from onceflow.model.limits import check_extra
from onceflow.model.serialize import dumps
from onceflow.model.times import to_rfc3339
from onceflow.store.database import Database


@dataclass(frozen=True)
class Created:
    """A new run. It waits in `queued` while its DAG is paused."""

    id: int
    run_id: str
    paused: bool


async def create_manual(
    database: Database,
    dag_id: str,
    *,
    conf: Mapping[str, Any] | None = None,
    logical_date: datetime | None = None,
    by: Mapping[str, Any],
    request: UUID | None = None,
    now: datetime | None = None,
) -> Created | None:
    """Create a run by hand, queued behind those that wait already. None if there is no such active DAG.

    The same `request` again is answered with the run that it made.

    Raises InputError when `conf` does not fit the DAG's parameters, ConflictError when the DAG has a run with that
    logical date.
    """
    text = _conf_text(conf)
    schemas = await database.fetchval("dags/params", dag_id)
    check_conf(conf or {}, json.loads(schemas) if schemas else {})
    try:
        row = await database.fetchrow("runs/create_manual", dag_id, text, logical_date, dumps(dict(by)), now, request)
    except asyncpg.UniqueViolationError as error:
        if logical_date is None:
            raise
        raise ConflictError(
            f"DAG {dag_id!r} has a run with the logical date {to_rfc3339(logical_date)} already",
            where="logical_date",
            remedy="leave it out, or choose another one",
        ) from error
    return None if row is None else Created(row["id"], row["run_id"], row["paused"])


def _conf_text(conf: Mapping[str, Any] | None) -> str | None:
    if conf is None:
        return None
    if not isinstance(conf, Mapping):
        raise InputError(f"conf is {conf!r}", where="conf", remedy="give a JSON object")
    text = dumps(dict(conf), "conf")
    check_extra(text, "conf")
    return text
