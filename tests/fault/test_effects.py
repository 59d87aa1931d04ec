"""An attempt that dies around its effect, and one that wakes after its successor: the effect happens once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from onceflow import Effect
from support import alive, eventually
from system import System

SHOP = """
    import os, signal, time
    from pathlib import Path
    import psycopg
    from onceflow import DAG, once, task

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def wait(folder):
        (folder / "pid").write_text(str(os.getpid()))
        while not (folder / "go").exists():
            time.sleep(0.02)

    with DAG("ship", schedule=None):
        @task(retries=2, retry_delay=0.1)
        def book(dag_run, ti):
            what = dag_run.conf["first"] if ti.attempt == 1 else ""
            with psycopg.connect(dag_run.conf["shop"]) as connection:
                if what == "waits":
                    wait(Path(dag_run.conf["folder"]))
                mine = once("book").claim(connection)
                if mine:
                    connection.execute("insert into booking values (%s)", [ti.attempt])
                if what == "dies before its commit":
                    die()
            if what == "dies after its commit":
                die()
            return mine
        book()
"""


@pytest.fixture
async def shop(empty_database_url: str) -> AsyncIterator[str]:
    """The address of a user's database."""
    sql = await asyncpg.connect(empty_database_url)
    await sql.execute(Effect.CREATE_TABLE)
    await sql.execute("create table booking (attempt int)")
    await sql.close()
    yield empty_database_url


async def booked(shop: str) -> list[int]:
    sql = await asyncpg.connect(shop)
    rows = await sql.fetch("select attempt from booking")
    await sql.close()
    return [r["attempt"] for r in rows]


@pytest.mark.parametrize(("first", "by"), [("dies before its commit", 2), ("dies after its commit", 1)])
async def test_an_attempt_that_dies_around_its_effect(
    tmp_path: Path, database_url: str, shop: str, first: str, by: int
) -> None:
    """airflow #58570, #23520: the task starts again, its effect does not happen again."""
    async with System(tmp_path, database_url) as system:
        await system.sound("shop.py", SHOP)
        run = await system.run("ship", {"first": first, "shop": shop})
        outcomes = [a["outcome"] for a in await system.attempts("ship", run["run_id"])]
        assert outcomes == ["killed", "success"]
        assert await booked(shop) == [by]
        await system.verify()


async def test_an_attempt_that_wakes_after_its_successor(tmp_path: Path, database_url: str, shop: str) -> None:
    """argo-events #1516: worker and attempt stand still for longer than their lease, with a transaction begun."""
    async with System(tmp_path, database_url, workers=2) as system:
        await system.sound("shop.py", SHOP)
        run_id = await system.trigger("ship", {"first": "waits", "shop": shop, "folder": str(tmp_path)})
        pid = tmp_path / "pid"
        guest = int(await eventually(lambda: pid.exists() and pid.read_text(), why="the first attempt"))
        [attempt] = await system.attempts("ship", run_id)
        worker = next(p["pid"] for p in await system.processes("worker") if p["id"] == attempt["worker"])
        system.freeze(worker)
        system.freeze(guest)
        run = await system.ended("ship", run_id)
        assert run["state"] == "success"
        (tmp_path / "go").touch()
        system.thaw(guest)
        await eventually(lambda: not alive(guest), why="the first attempt has come to its end")
        system.thaw(worker)
        assert [a["outcome"] for a in await system.attempts("ship", run_id)] == ["lost", "success"]
        assert await booked(shop) == [2]
        await system.verify()
