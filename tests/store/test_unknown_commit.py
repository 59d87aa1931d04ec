"""The connection breaks and nobody knows whether the COMMIT was done: sent again, nothing is doubled or lost."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from ground import SOURCE, Gate, Scheduler, change, claim_tasks, dag, declare, each, finish, healthy, pool, report, rows

from onceflow.model.errors import UnreachableError
from onceflow.store import runs
from onceflow.store.database import Database, is_transient
from onceflow.store.emit import emit

WORKER = uuid.UUID(int=1)


def break_connections(database: Database) -> None:
    """The network is gone; the server does not know yet."""
    for holder in database._pool._holders:
        if holder._con is not None:
            holder._con._transport.abort()


@pytest.mark.parametrize("key", ["k", None])
async def test_committed_but_not_answered(database_url: str, key: str | None) -> None:
    """The server commits after the client has lost it: the second sending is recognised as the same sighting."""
    async with pool(database_url, "gated") as client, pool(database_url) as other:
        await declare(other, "a", dag("d", each("a")))
        async with Gate.at_commit(database_url, "event") as gate, asyncio.TaskGroup() as group:
            emitting = group.create_task(emit(client, [change("a", key)], SOURCE))
            await gate.reached()
            break_connections(client)
            await gate.waits("gated", twice=True)  # it is sent again, and waits for the first one
            await gate.open()
        assert [r.status for r in emitting.result()] == ["repeated"]
        assert await rows(other, "select 1 from witness") == []
        counted = await healthy(other)
        assert (counted["events"], counted["deliveries"]) == (1, 1)


async def test_not_committed_and_not_answered(database_url: str) -> None:
    """The server ends the session before its COMMIT is done: the second sending stores."""
    async with pool(database_url, "gated") as client, pool(database_url) as other:
        await declare(other, "a", dag("d", each("a")))
        async with Gate.at_commit(database_url, "event") as gate, asyncio.TaskGroup() as group:
            emitting = group.create_task(emit(client, [change("a", "k")], SOURCE))
            await gate.reached()
            await gate.end_session()
            await gate.open()
        assert [r.status for r in emitting.result()] == ["stored"]
        assert (await healthy(other))["events"] == 1


async def test_a_report_committed_but_not_answered(database_url: str) -> None:
    """The worker keeps it until it knows, and hears that it was stored."""
    async with pool(database_url, "gated") as worker, pool(database_url) as other:
        await declare(other, "a", dag("d"), dag("e", each("a")), path="f.py")
        await runs.create_manual(other, "d", by={})
        await Scheduler(other).settle()
        task = (await claim_tasks(worker, WORKER))["work"]
        ended = report(task, changes=[change("a")], value="1")
        known = dict(await rows(other, "select name, id from asset"))
        async with Gate.at_commit(database_url, "event") as gate:
            async with asyncio.TaskGroup() as group:
                lost = group.create_task(_outcome(finish(worker, WORKER, ended, assets=known)))
                await gate.reached()
                break_connections(worker)
            assert is_transient(lost.result()) or isinstance(lost.result(), UnreachableError)
            async with asyncio.TaskGroup() as group:
                again = group.create_task(finish(worker, WORKER, ended, assets=known))
                await gate.waits("gated", twice=True)
                await gate.open()
        assert again.result() == ["repeated"]
        assert (await healthy(other))["events"] == 1


async def _outcome(work: Any) -> Any:
    try:
        return await work
    except Exception as error:
        return error


async def test_a_session_whose_end_was_told_while_it_was_idle(database_url: str) -> None:
    """The server's last words are read before its hang-up: a lost connection, not a fault of ours."""
    fields = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
    last_words = b"E" + (len(fields) + 4).to_bytes(4, "big") + fields
    async with pool(database_url) as database:
        for work in ("fetchval", "nothing"):
            with pytest.raises(UnreachableError):
                async with database.transaction() as tx:
                    tx._raw._con._protocol.data_received(last_words)
                    if work == "fetchval":
                        await tx.fetchval("processes/now")
        assert await database.fetchval("processes/now") is not None, "the pool goes on with another one"
