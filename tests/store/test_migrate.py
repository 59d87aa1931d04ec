"""Migrations: applied once, in order, whole or not at all; a process and a schema that do not fit say so."""

from __future__ import annotations

from typing import Any

import pytest
from ground import connected, together_all

from onceflow.model.errors import UnreachableError, UnsupportedError
from onceflow.store import database as database_module
from onceflow.store import migrate as migrations
from onceflow.store.database import Database, public_address
from onceflow.store.migrate import Migration, check, migrate, wait_until_ready


async def query(url: str, text: str) -> list[tuple[Any, ...]]:
    async with connected(url) as sql:
        return [tuple(r) for r in await sql.fetch(text)]


async def test_many_migrate_at_once(empty_database_url: str) -> None:
    """One of them does it, the others wait and find it done."""
    assert "no Onceflow schema yet" in await check(empty_database_url)
    applied = await together_all(*(migrate(empty_database_url) for _ in range(4)))
    names = [m.name for m in migrations.migrations()]
    assert sorted(applied) == [[], [], [], names]
    assert await check(empty_database_url) == ""
    assert [n for (n,) in await query(empty_database_url, "select name from migration order by number")] == names


async def test_numbers_have_no_gap() -> None:
    found = migrations.migrations()
    assert [m.number for m in found] == list(range(1, len(found) + 1))


async def test_a_migration_that_fails_leaves_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = migrations.migrations()
    good = Migration(len(known) + 1, "good", "create table good (id int)")
    bad = Migration(len(known) + 2, "bad", "create table half (id int); select 1 / 0")
    monkeypatch.setattr(migrations, "migrations", lambda: [*known, good, bad])
    with pytest.raises(UnsupportedError, match="refuses the schema: division by zero"):
        await migrate(database_url)
    assert await query(database_url, "select to_regclass('good') is null, to_regclass('half') is null") == [
        (False, True)
    ]
    assert "needs" in await check(database_url)
    monkeypatch.setattr(migrations, "migrations", lambda: [*known, good, Migration(bad.number, "mended", "select 1")])
    assert await migrate(database_url) == ["mended"]


async def test_a_database_of_another_build(database_url: str) -> None:
    await query(database_url, "update migration set digest = 'other' where number = 1")
    assert "made by another build: its migration 0001_model is not this one's" in await check(database_url)
    with pytest.raises(UnsupportedError, match="another build") as told:
        await migrate(database_url)
    assert "an empty database" in told.value.remedy


async def test_somebody_elses_database(empty_database_url: str) -> None:
    await query(empty_database_url, "create table migration (version text)")
    assert "cannot be read" in await check(empty_database_url)
    with pytest.raises(UnsupportedError, match="database of Onceflow's own"):
        await migrate(empty_database_url)


async def test_a_migrator_that_stands_still(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "LOCK_SECONDS", 1)
    async with connected(empty_database_url) as other:
        await other.execute("select pg_advisory_lock($1)", migrations.LOCK)
        with pytest.raises(UnsupportedError, match="another process has been migrating"):
            await migrate(empty_database_url)


@pytest.mark.parametrize("url", ["postgresql://[::1", "postgres://127.0.0.1:port/x", "mysql://x"])
async def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(UnreachableError, match="correct ONCEFLOW_DATABASE_URL"):
        await migrate(url)
    with pytest.raises(UnreachableError, match="correct ONCEFLOW_DATABASE_URL"):
        await Database.connect(url)


async def test_a_server_that_is_too_old(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """apache/airflow #71250: what is not supported is refused at the start, not met in a loop."""
    monkeypatch.setattr(database_module, "OLDEST_SERVER", 99)
    monkeypatch.setattr(migrations, "OLDEST_SERVER", 99)
    for start in (Database.connect, migrate, check):
        with pytest.raises(UnsupportedError, match=r"PostgreSQL \d+ is too old") as caught:
            await start(database_url)
        assert "use PostgreSQL 99 or newer" in str(caught.value)


def test_an_address_is_shown_without_its_passwords() -> None:
    shown = public_address("postgresql://me:secret@h/db?password=secret&host=/x&sslpassword=secret")
    assert shown == "postgresql://me@h/db?password=…&host=/x&sslpassword=…"


async def test_an_older_process_goes_on_unless_the_newer_schema_breaks_it(database_url: str) -> None:
    number = migrations.migrations()[-1].number
    await query(database_url, f"insert into migration values ({number + 1}, 'later', false, '')")
    assert await check(database_url) == ""
    await query(database_url, f"insert into migration values ({number + 2}, 'breaking', true, '')")
    assert f"needs version {number + 2}" in await check(database_url)
    with pytest.raises(UnsupportedError, match="upgrade Onceflow"):
        await wait_until_ready(database_url, seconds=0)


async def test_a_process_newer_than_the_schema_waits_for_it(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = migrations.migrations()
    later = Migration(len(known) + 1, "later", "select 1")
    monkeypatch.setattr(migrations, "migrations", lambda: [*known, later])
    told: list[str] = []
    with pytest.raises(UnsupportedError, match="onceflow db migrate"):
        await wait_until_ready(database_url, seconds=1, waiting=told.append)
    assert len(told) == 1 and "run `onceflow db migrate`" in told[0]
    await migrate(database_url)
    await wait_until_ready(database_url, seconds=0)


async def test_a_server_that_does_not_answer(tmp_path: Any) -> None:
    with pytest.raises(UnreachableError, match="does not answer"):
        await check(f"postgresql://nobody:secret@/x?host={tmp_path}")
