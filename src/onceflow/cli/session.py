"""What a command needs: the settings, a connection to the database that runs, an event loop."""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click

from onceflow.config import Settings, load
from onceflow.model.errors import InputError, UnreachableError, UnsupportedError
from onceflow.store.database import BAD_DATA, Database, public_address
from onceflow.store.migrate import check

Value = TypeVar("Value")

PATIENCE = 3600.0
"""Twice the seconds a listing may wait for whoever reads it (`| less`) before the database ends its transaction."""


def settings(**flags: Any) -> Settings:
    """The settings as this command's flags, and those before it, change them."""
    return load(click.get_current_context().find_root().obj | flags)


def run(work: Coroutine[Any, Any, Value]) -> Value:
    """Run a command's work to its end. Raises InputError for an argument that no database takes."""
    try:
        return asyncio.run(work)
    except BAD_DATA as error:
        raise InputError(f"the database refuses an argument: {error}", remedy="correct it") from error


def database_url(chosen: Settings) -> str:
    """The address of the database: as set, or of the embedded server that runs. Raises UnreachableError."""
    if chosen.database_url:
        return chosen.database_url
    from onceflow.runtime.postgres import attach

    url = attach(chosen.home)
    if url is None:
        raise UnreachableError(
            "Onceflow is not running here",
            where=str(chosen.home),
            remedy="start it with `onceflow standalone`, name another home with --home, "
            "or set ONCEFLOW_DATABASE_URL to a database in use",
        )
    return url


async def check_named(database: Database, *, dags: Iterable[str | None] = (), asset: str | None = None) -> None:
    """A list that is empty since nothing has that name is no answer. Raises NotFoundError with names that are close."""
    from onceflow.queries.dags import check_dag
    from onceflow.store import assets

    for dag_id in dags:
        if dag_id is not None:
            await check_dag(database, dag_id)
    if asset is not None and not await database.fetchval("assets/known", asset):
        await assets.find(database, [asset])


@asynccontextmanager
async def connected(*, patient: bool = False) -> AsyncGenerator[Database, None]:
    """A connection for a person's command. Raises UnreachableError, or UnsupportedError for another schema.

    `patient`: it lists rows, and may stand still inside its transaction as long as whoever reads them does. Others lock
    rows, and lose them like any process that stands still.
    """
    chosen = settings()
    url = database_url(chosen)
    reason = await check(url)
    if reason:
        problem, _, remedy = reason.partition(": ")
        raise UnsupportedError(problem, where=public_address(url), remedy=remedy)
    async with await Database.connect(
        url,
        max_size=2,
        kind="cli",
        lease_seconds=PATIENCE if patient else chosen.lease_seconds,
        pooler=chosen.database_pooler,
        hot=False,
    ) as database:
        yield database


async def wake(database: Database, *topics: str) -> None:
    """Wake the processes that wait for these topics; polling is the truth, so a failure is no error."""
    from onceflow.store.notify import notify_once

    await notify_once(database, *topics)


def who() -> dict[str, Any]:
    """Who gives this command, for the record."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    return {"kind": "cli", "user": user, "host": socket.gethostname()}
