"""Fixtures: a real PostgreSQL per test process, a database of its own per test.

The server is the embedded one, in a temporary home. Migrations run once into a template that each test's database is
cloned from. `ONCEFLOW_PG_BINDIR` runs everything on another PostgreSQL.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import pytest

from onceflow.config import load
from onceflow.runtime.postgres import EmbeddedPostgres
from onceflow.store.database import Database
from onceflow.store.migrate import migrate
from people import World
from support import drop_database, execute, with_database

NewDatabase = Callable[[], AbstractAsyncContextManager[str]]

TEMPLATE = "migrated"
numbers = itertools.count(1)


@pytest.fixture(scope="session")
def pg_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """The server of this test process (one for each worker of xdist)."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("home"), load().pg_bindir) as server:
        yield server


@pytest.fixture(scope="session")
def pg_template(pg_server: EmbeddedPostgres) -> str:
    """The name of a migrated database to clone from."""

    async def make() -> None:
        await execute(pg_server.url, f"CREATE DATABASE {TEMPLATE}")
        await migrate(with_database(pg_server.url, TEMPLATE))

    asyncio.run(make())
    return TEMPLATE


@pytest.fixture(scope="session")
def new_database(pg_server: EmbeddedPostgres, pg_template: str) -> NewDatabase:
    """Makes migrated databases, for who needs several; each is given as its address."""
    return partial(a_database, pg_server, pg_template)


@pytest.fixture
async def database_url(pg_server: EmbeddedPostgres, pg_template: str) -> AsyncIterator[str]:
    """The address of a migrated database that is this test's alone."""
    async with a_database(pg_server, pg_template) as url:
        yield url


@pytest.fixture
async def empty_database_url(pg_server: EmbeddedPostgres) -> AsyncIterator[str]:
    """The address of an empty database that is this test's alone."""
    async with a_database(pg_server, "template0") as url:
        yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A pool of connections to this test's migrated database."""
    async with await Database.connect(database_url, max_size=8) as database:
        yield database


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    """Makes in this test's database what people see: DAGs, events, runs."""
    world = await World.open(database)
    yield world
    await world.close()


@asynccontextmanager
async def a_database(server: EmbeddedPostgres, template: str) -> AsyncIterator[str]:
    name = f"test_{next(numbers)}"
    await execute(server.url, f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield with_database(server.url, name)
    finally:
        await drop_database(server.url, name)
