"""Deliveries refer to their run as by a foreign key, which is looked up once per statement (decision record 0016)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from ground import Scheduler, connected, dag, declare, each, healthy, members, one_of, record, rows, waits

from onceflow.model.consume import Group
from onceflow.model.errors import OnceflowError
from onceflow.store import deliveries
from onceflow.store.database import Database
from onceflow.store.deliveries import Consumption

JOIN = "update delivery set disposition = 'joined', run_id = $1, judged = true, decided_at = now() where event_id = 2"


LONELY = (
    "insert into run (id, dag_id, run_id, run_type, ordinal, created_by) overriding system value "
    "values (50, 1, 'x', 'manual', 50, '{}')"
)


@pytest.fixture
async def sql(database: Database, database_url: str) -> AsyncIterator[Any]:
    """A DAG with a run of event 1; event 2 is pending."""
    await declare(database, dag("d", each("a")), "a")
    await record(database, "a")
    await Scheduler(database).settle()
    await record(database, "a")
    async with connected(database_url, "first") as connection:
        yield connection


@pytest.mark.parametrize(
    "statement",
    [
        JOIN.replace("$1", "77"),
        f"alter table delivery disable trigger disposition_set_once; {JOIN.replace('$1', '77').replace('2', '1')}",
        "insert into delivery (event_id, dag_id, asset_id, disposition, judged, run_id, decided_at) "
        "values (2, 99, 1, 'joined', true, 77, now())",
    ],
)
async def test_a_delivery_is_in_a_run_that_exists(sql: Any, statement: str) -> None:
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="run that does not exist"):
        await sql.execute(statement)


@pytest.mark.parametrize("statement", ["delete from run", "update run set id = default"])
async def test_a_run_with_deliveries_stays(sql: Any, statement: str) -> None:
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="still has deliveries"):
        await sql.execute(f"delete from task; {statement}")


async def test_runs_and_their_deliveries_go_in_one_statement(sql: Any) -> None:
    await sql.execute("with gone as (delete from delivery where run_id is not null) delete from run")
    assert await sql.fetchval("select count(*) from run") == 0


async def test_who_joins_a_run_that_somebody_deletes_meanwhile_fails(sql: Any, database_url: str) -> None:
    await sql.execute(LONELY)
    async with connected(database_url, "second") as other, sql.transaction():
        await sql.execute("delete from run where id = 50")
        joining = asyncio.create_task(other.execute(JOIN, 50))
        await waits(sql, "second")
        await sql.execute("commit; begin")
        with pytest.raises(asyncpg.ForeignKeyViolationError, match="does not exist"):
            await joining


async def test_who_deletes_a_run_that_somebody_joins_meanwhile_fails(sql: Any, database_url: str) -> None:
    await sql.execute(LONELY)
    async with connected(database_url, "second") as other, sql.transaction():
        await sql.execute(JOIN, 50)
        deleting = asyncio.create_task(other.execute("delete from run where id = 50"))
        await waits(sql, "second")
        await sql.execute("commit; begin")
        with pytest.raises(asyncpg.ForeignKeyViolationError, match="still has deliveries"):
            await deleting


async def test_joining_a_run_does_not_wait_for_who_writes_it(sql: Any, database_url: str) -> None:
    async with connected(database_url, "second") as other, sql.transaction():
        await sql.execute("update run set end_reason = 'x' where id = 1")
        await other.execute("set lock_timeout = '1s'")
        await other.execute(JOIN, 1)


@pytest.mark.parametrize("count", [3, 700])
async def test_exactly_the_judged_deliveries_are_consumed_or_none(database: Database, count: int) -> None:
    """Whether a run of few or of many: one that was decided meanwhile, and nothing is written."""
    await declare(database, dag("d", one_of("a")), "a")
    await record(database, *["a"] * count)

    async def consume(events: range) -> None:
        async with database.transaction() as tx:
            [claimed] = await deliveries.claim(tx, [1])
            group = Group(events[0], tuple(events))
            await deliveries.consume(tx, uuid.UUID(int=1), [Consumption(1, claimed.version, [group], "{}")])

    await consume(range(2, 3))
    with pytest.raises(OnceflowError, match=f"{count} deliveries were judged, {count - 1} were pending"):
        await consume(range(1, count + 1))
    assert await members(database) == [[2]]
    assert await rows(database, "select count(*) from delivery where disposition = 'pending'") == [(count - 1,)]
    await Scheduler(database).settle()
    assert await members(database) == [[2], [1, *range(3, count + 1)]]
    await healthy(database)
