"""Every statement is known, used, and prepares; what the rules say of all SQL holds for all of it."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from ground import Scheduler, connected, dag, declare, each, finish, healthy, record, report

import onceflow
from onceflow.queries.verify import checks
from onceflow.store import statements, tasks
from onceflow.store.database import Database
from onceflow.store.migrate import FOLDER as MIGRATIONS

CODE = Path(onceflow.__file__).parent
WORKER = uuid.UUID(int=1)
FUNCTION = re.compile(r"create function (\w+)\(")


@pytest.fixture
async def sql(database_url: str) -> AsyncIterator[Any]:
    async with connected(database_url) as connection:
        yield connection


async def test_every_statement_prepares(sql: Any) -> None:
    refused = {}
    for name in statements.names():
        try:
            await sql.prepare(statements.text(name))
        except asyncpg.PostgresError as error:
            refused[name] = str(error)
    assert refused == {}


def test_every_statement_is_used_and_every_used_one_exists() -> None:
    code = "\n".join(p.read_text(encoding="utf-8") for p in CODE.rglob("*.py"))
    named = set(re.findall(r"""["']([a-z]+/[a-z_]+)["']""", code)) | {f"verify/{c}" for c in checks()}
    present = set(statements.names())
    folders = {n.partition("/")[0] for n in present}
    assert present - named == set(), "statements that nobody runs"
    assert {n for n in named - present if n.partition("/")[0] in folders} == set(), "statements that do not exist"


def test_every_function_of_the_schema_is_called() -> None:
    schema = "\n".join(p.read_text(encoding="utf-8") for p in sorted(MIGRATIONS.glob("*.sql")))
    called = schema + "\n".join(statements.text(n) for n in statements.names())
    for function in FUNCTION.findall(schema):
        uses = re.findall(rf"\b{function}\(", called)
        assert len(uses) > 1, f"nothing calls {function}"


async def test_functions_that_lock_are_volatile(sql: Any) -> None:
    """Only a VOLATILE function takes a fresh snapshot per statement, so only it sees what a lock protects."""
    rows = await sql.fetch(
        "select proname, provolatile from pg_proc where pronamespace = 'public'::regnamespace "
        "and prosrc ~* 'for no key update|update |insert '"
    )
    assert rows
    assert {r["proname"]: r["provolatile"] for r in rows if r["provolatile"] != b"v"} == {}


def test_locks_are_for_no_key_update() -> None:
    """A stronger lock blocks the foreign key checks of those who record (theirs, KEY SHARE, blocks no writer)."""
    texts = {n: statements.text(n) for n in statements.names()}
    texts |= {p.name: p.read_text(encoding="utf-8") for p in MIGRATIONS.glob("*.sql")}
    stronger = re.compile(r"\bfor\s+(update|share)\b", re.I)
    assert {n for n, text in texts.items() if stronger.search(_code(text))} == set()


def test_time_is_the_moment_not_the_transaction_s_begin() -> None:
    """`now()` stands still in a transaction that waited for a lock; leases and order need the clock."""
    texts = {n: statements.text(n) for n in statements.names()}
    texts |= {p.name: p.read_text(encoding="utf-8") for p in MIGRATIONS.glob("*.sql")}
    frozen = re.compile(r"\bnow\(\)|current_timestamp|localtimestamp", re.I)
    assert {n for n, text in texts.items() if frozen.search(_code(text))} == set()


async def test_no_delivery_depends_on_its_consumer_s_row(sql: Any) -> None:
    """A foreign key from delivery to dag would make recording wait for whoever judges."""
    assert not await sql.fetchval(
        "select exists (select 1 from pg_constraint "
        "where conrelid = 'delivery'::regclass and confrelid = 'dag'::regclass)"
    )


@pytest.mark.parametrize("pooler", ["none", "session", "transaction"])
@pytest.mark.parametrize("hot", [True, False])
async def test_read_committed_is_said_explicitly(database_url: str, hot: bool, pooler: str) -> None:
    """On a server set to another isolation level, single statements and transactions are READ COMMITTED still.

    A pooler by transactions keeps no settings of ours: there a single statement has a transaction that says it.
    """
    admin = await asyncpg.connect(database_url)
    name = await admin.fetchval("select current_database()")
    await admin.execute(f"alter database {name} set default_transaction_isolation = 'serializable'")
    await admin.close()
    level = "select current_setting('transaction_isolation')"
    async with await Database.connect(database_url, hot=hot, pooler=pooler) as database:
        async with database._alone() as raw:
            assert await raw.fetchval(level) == "read committed"
        async with database.transaction() as tx:
            assert await tx._raw.fetchval(level) == "read committed"


async def test_everything_works_through_a_pooler_by_transactions(database_url: str) -> None:
    """Without session settings and prepared statements that last: record, judge, start, claim, finish."""
    async with await Database.connect(database_url, pooler="transaction") as database:
        await declare(database, "a", dag("d", each("a")))
        await record(database, "a", "a")
        scheduler = Scheduler(database)
        await scheduler.settle()
        for _ in range(2):
            [task] = await tasks.claim(database, WORKER, 1, 60.0)
            assert await finish(database, WORKER, report(task)) == ["finished"]
        await scheduler.settle()
        counted = await healthy(database)
        assert counted["by_disposition"] == {"started": 2}


def _code(text: str) -> str:
    """SQL without its comments."""
    return re.sub(r"--[^\n]*|'[^']*'", "", text)
