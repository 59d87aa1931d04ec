"""Effects once per run: in the user's own transaction, as an object, as a header; attempts race for them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import psycopg
import pytest

from onceflow import DAG, Effect, once, task
from onceflow.model.errors import InputError, OnceflowError
from onceflow.sdk.once import object_store
from onceflow.sdk.runtime import execute
from support import eventually

FIRST = Effect("book", "shop", "manual__1", "ship", -1, 1, str(uuid.uuid4()))
SECOND = replace(FIRST, attempt=2, fence_token=str(uuid.uuid4()))

WAITS = "select true from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


@pytest.fixture
async def shop(empty_database_url: str) -> AsyncIterator[str]:
    """The address of a user's database, which counts what was booked."""
    sql = await asyncpg.connect(empty_database_url)
    await sql.execute(Effect.CREATE_TABLE)
    await sql.execute(Effect.CREATE_TABLE)  # it may be run again
    await sql.execute("create table booking (attempt int)")
    await sql.close()
    yield empty_database_url


async def booked(shop: str) -> list[int]:
    sql = await asyncpg.connect(shop)
    try:
        return [r["attempt"] for r in await sql.fetch("select attempt from booking")]
    finally:
        await sql.close()


async def book(shop: str, effect: Effect) -> bool:
    """One attempt, with asyncpg."""
    sql = await asyncpg.connect(shop)
    try:
        async with sql.transaction():
            mine = await effect.claim_async(sql)
            if mine:
                await sql.execute("insert into booking values ($1)", effect.attempt)
            return mine
    finally:
        await sql.close()


def book_sync(shop: str, effect: Effect) -> bool:
    """One attempt, with psycopg."""
    with psycopg.connect(shop) as sql:
        mine = effect.claim(sql)
        if mine:
            sql.execute("insert into booking values (%s)", [effect.attempt])
        return mine


async def book_psycopg_async(shop: str, effect: Effect) -> bool:
    async with await psycopg.AsyncConnection.connect(shop) as sql:
        mine = await effect.claim_async(sql)
        if mine:
            await sql.execute("insert into booking values (%s)", [effect.attempt])
        return mine


async def test_the_second_attempt_finds_it_done(shop: str) -> None:
    assert await book(shop, FIRST)
    assert not book_sync(shop, SECOND)
    assert not await book_psycopg_async(shop, SECOND)
    assert await booked(shop) == [1]
    assert await book(shop, replace(SECOND, name="another"))
    assert await book_psycopg_async(shop, replace(SECOND, run_id="manual__2"))
    assert book_sync(shop, replace(SECOND, map_index=0))


async def test_attempts_that_race_do_it_once(shop: str) -> None:
    """A frozen attempt and those that came after it, all awake at once, with three kinds of connections."""
    attempts = [replace(FIRST, attempt=n, fence_token=str(uuid.uuid4())) for n in range(12)]
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(4) as threads:
        sync = [loop.run_in_executor(threads, book_sync, shop, a) for a in attempts[:4]]
        both = await asyncio.gather(
            *sync, *(book(shop, a) for a in attempts[4:8]), *(book_psycopg_async(shop, a) for a in attempts[8:])
        )
    assert sum(both) == 1
    assert await booked(shop) == [both.index(True)]


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_an_attempt_waits_for_one_that_is_under_way(shop: str, end: str) -> None:
    """Committed: it is done. Rolled back, as by a crash: the second does it."""
    sql, other = await asyncpg.connect(shop), await asyncpg.connect(shop)
    first = sql.transaction()
    await first.start()
    assert await FIRST.claim_async(sql)
    async with asyncio.TaskGroup() as group:
        second = group.create_task(book(shop, SECOND))
        await eventually(lambda: other.fetchval(WAITS), why="the second attempt waits")
        await getattr(first, end)()
    await sql.close()
    await other.close()
    assert second.result() == (end == "rollback")
    assert await booked(shop) == ([2] if end == "rollback" else [])


async def test_a_claim_outside_of_a_transaction_is_refused(shop: str) -> None:
    """It would stand though the effect fell."""
    sql = await asyncpg.connect(shop)
    with pytest.raises(InputError, match="outside of a transaction"):
        await FIRST.claim_async(sql)
    await sql.close()
    with psycopg.connect(shop, autocommit=True) as own:
        with pytest.raises(InputError, match="outside of a transaction") as refused:
            FIRST.claim(own)
        assert "stand or fall together" in refused.value.remedy
        with own.transaction():
            assert FIRST.claim(own)
    async with await psycopg.AsyncConnection.connect(shop, autocommit=True) as other:
        with pytest.raises(InputError, match="outside of a transaction"):
            await FIRST.claim_async(other)


async def test_a_missing_table_is_explained(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url) as sql, pytest.raises(InputError, match="no table") as refused:
        FIRST.claim(sql)
    assert "Effect.CREATE_TABLE" in refused.value.remedy
    with pytest.raises(InputError, match="no table onceflow_effect"):
        await book(empty_database_url, FIRST)


async def test_what_was_done_says_by_whom(shop: str) -> None:
    await book(shop, SECOND)
    sql = await asyncpg.connect(shop)
    row = await sql.fetchrow("select * from onceflow_effect")
    await sql.close()
    assert (str(row["id"]), row["name"], row["run_id"], row["attempt"]) == (FIRST.id, "book", "manual__1", 2)
    assert str(row["fence_token"]) == SECOND.fence_token


def test_an_effect_is_known_by_name_task_and_run() -> None:
    assert FIRST.id == SECOND.id == "c3962c2d-3fd8-5f54-a0d6-c8f168865830"
    others = [replace(FIRST, **{name: "x"}) for name in ("name", "dag_id", "run_id", "task_id")]
    assert len({FIRST.id, *(o.id for o in others), replace(FIRST, map_index=0).id}) == 6
    assert SECOND.headers == {
        "Idempotency-Key": FIRST.id,
        "Onceflow-Fence-Token": SECOND.fence_token,
        "Onceflow-Attempt": "2",
    }


def test_the_running_task_is_the_default() -> None:
    with DAG("shop", schedule=None) as made:

        @task
        def ship() -> Any:
            effect = once("book")
            return [effect.id, effect.attempt, effect.fence_token]

        ship()
    request = {"run": {"run_id": "manual__1"}, "dag_id": "shop", "task_id": "ship", "attempt": 3, "token": "t"}
    nothing = SimpleNamespace(inlet_events=None, triggering_events=None)
    assert execute(made, request, nothing).value == [FIRST.id, 3, "t"]  # type: ignore[arg-type]
    for wrong in ("", None, "a\0"):
        with pytest.raises(InputError, match="name"):
            once(wrong, ti=FIRST)  # type: ignore[arg-type]


class Refused(Exception):
    """As boto's ClientError."""

    def __init__(self, code: str) -> None:
        self.response = {"Error": {"Code": code}}


class Bucket:
    """As boto3's S3 client, with what the service does; `busy`: how often it says that somebody else is writing."""

    def __init__(self, busy: int = 0) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}
        self.busy = busy

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str) -> None:
        assert IfNoneMatch == "*"
        if self.busy:
            self.busy -= 1
            raise Refused("ConditionalRequestConflict")
        if (Bucket, Key) in self.objects:
            raise Refused("PreconditionFailed")
        self.objects[Bucket, Key] = Body


class Files:
    """As a file system of fsspec's that can create."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def pipe_file(self, path: str, value: bytes, mode: str) -> None:
        if path in self.files:
            raise FileExistsError(path)
        self.files[path] = value


def test_an_object_is_written_once(tmp_path: Path) -> None:
    for store in (object_store(Bucket(), "exports"), Files(), tmp_path):
        first, second = (e.put(store, b"from %d" % e.attempt, prefix="daily/", suffix=".csv") for e in (FIRST, SECOND))
        assert first.path == second.path == f"daily/{FIRST.id}.csv"
        assert (first.written, second.written) == (True, False)
    assert [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()] == [b"from 1"]


def test_attempts_that_race_write_one_whole_file(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(lambda n: FIRST.put(tmp_path, bytes([n]) * 100_000), range(32)))
    [file] = tmp_path.iterdir()
    assert sum(d.written for d in done) == 1
    assert file.read_bytes() == bytes([next(n for n, d in enumerate(done) if d.written)]) * 100_000


def test_a_busy_store_is_asked_again() -> None:
    assert object_store(Bucket(busy=2), "b").put_if_absent("x", b"")
    with pytest.raises(OnceflowError, match="keeps writing"):
        object_store(Bucket(busy=99), "b").put_if_absent("x", b"")


class AbstractFileSystem:
    """As fsspec's base: it looks first, and writes then."""

    def pipe_file(self, path: str, value: bytes, mode: str) -> None:
        raise AssertionError("not to be called")


class LooksFirst(AbstractFileSystem):
    pass


def test_what_is_no_store_is_refused() -> None:
    for client in (object(), "s3://bucket", LooksFirst()):
        with pytest.raises(InputError, match="no way to write only what is not there"):
            object_store(client)
    with pytest.raises(InputError, match="no bucket"):
        object_store(Bucket())
    with pytest.raises(Refused):
        object_store(RefusingBucket(), "b").put_if_absent("x", b"")


class RefusingBucket:
    def put_object(self, **_: object) -> None:
        raise Refused("AccessDenied")
