"""Triggers that acknowledge what they told of, as those of brokers do: behind the `yield`, so after the commit.

Three triggerers share twenty queues. A queue is a file; what is acknowledged is in a second one, and whoever begins to
watch goes on behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from onceflow.runtime.postgres import EmbeddedPostgres
from support import alive, eventually
from system import System, shared
from watched import append

QUEUES, MESSAGES, TRIGGERERS = 20, 15, 3
LEASE_SECONDS = 60.0
"""Longer than any wait here: who waits for a lock is not cut off before the server looks for deadlocks, and for what is
taken over meanwhile nobody waited."""

BROKER = """
    import asyncio
    import os
    from pathlib import Path

    from onceflow import DAG, Asset, AssetWatcher, BaseEventTrigger, TriggerEvent, task


    class Queue(BaseEventTrigger):
        def __init__(self, path):
            super().__init__()
            self.path = path

        def serialize(self):
            return "broker.Queue", {"path": self.path}

        def lines(self, kind):
            path = Path(f"{self.path}.{kind}")
            return path.read_text().splitlines() if path.exists() else []

        def add(self, kind, line):
            with Path(f"{self.path}.{kind}").open("a") as file:
                file.write(f"{line}\\n")

        async def run(self):
            self.add("watched", os.getppid())
            while True:
                for line in self.lines("sent")[len(self.lines("acked")):]:
                    yield TriggerEvent(line, key=line)
                    self.add("acked", line)
                self.observed()
                await asyncio.sleep(0.05)


    for number in range(QUEUES):
        queue = Asset(f"queue{number}", watchers=[AssetWatcher("queue", trigger=Queue(f"FOLDER/{number}"))])
        with DAG(f"after{number}", schedule=queue):
            @task
            def work():
                pass
            work()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("queues")


@pytest.fixture(scope="module")
def system(
    module_database: str, pg_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory, folder: Path
) -> Iterator[System]:
    home = tmp_path_factory.mktemp("broker")
    with shared(System(home, module_database, triggerers=TRIGGERERS, lease_seconds=LEASE_SECONDS)) as system:
        yield system


@pytest.fixture(autouse=True)
async def watched(system: System, folder: Path) -> None:
    await system.sound("broker.py", BROKER.replace("QUEUES", str(QUEUES)).replace("FOLDER", str(folder)))
    await system.ready()


@asynccontextmanager
async def connected(system: System) -> AsyncIterator[Any]:
    sql = await asyncpg.connect(system.url)
    try:
        yield sql
    finally:
        await sql.close()


def lines(folder: Path, queue: int, kind: str) -> list[str]:
    path = folder / f"{queue}.{kind}"
    return path.read_text().splitlines() if path.exists() else []


async def acknowledged(folder: Path, queue: int, *expected: str) -> None:
    await eventually(lambda: lines(folder, queue, "acked")[-len(expected) :] == list(expected))


async def triggerers(system: System) -> set[int]:
    """Their processes, once all of them live: one may have been killed a moment ago."""

    async def all_live() -> set[int]:
        found = {p["pid"] for p in await system.processes("triggerer")}
        return found if len(found) == TRIGGERERS and all(map(alive, found)) else set()

    return await eventually(all_live, every=0.05, why="all triggerers are there")


async def waits(system: System) -> None:
    """A triggerer waits for a lock. Asked outside of the transaction that has it: inside, the answer stays the same."""

    async def one_waits() -> bool:
        [[found]] = await system.sql(
            "select exists (select 1 from pg_stat_activity where datname = current_database() "
            "and starts_with(application_name, 'triggerer') and wait_event_type = 'Lock')"
        )
        return found

    await eventually(one_waits, every=0.01, why="a triggerer waits for a lock")


async def test_answers_to_triggers_never_cross(system: System, folder: Path) -> None:
    """airflow #64882, and the airflow discussion "Duplicate runs with AssetWatcher on several triggerers".

    Each trigger hears of its own commits only, though twenty tell of changes all the time; one process looks at each
    queue, of three that live; each message is one event and one run.
    """
    begun = [len(lines(folder, q, "acked")) for q in range(QUEUES)]
    sent = {q: [f"{q}-{n}" for n in range(MESSAGES)] for q in range(1, QUEUES)}
    for n in range(MESSAGES):
        for queue, messages in sent.items():
            append(folder / f"{queue}.sent", messages[n])
        await asyncio.sleep(0)
    for queue, messages in sent.items():
        await acknowledged(folder, queue, *messages)
        assert lines(folder, queue, "acked")[begun[queue] :] == messages
        events = await system.events(f"queue{queue}")
        assert [e["key"] for e in events] == [e["extra"] for e in events] == messages
        assert len(await system.finished(f"after{queue}", MESSAGES)) == MESSAGES
    for watcher in await system.watchers():
        queue = int(watcher["asset"].removeprefix("queue"))
        assert watcher["owner"] and len(lines(folder, queue, "watched")) == watcher["term"], watcher


async def test_nothing_is_acknowledged_before_it_is_committed(system: System, folder: Path) -> None:
    """airflow #66584, #67523: and who is killed in between is told again, which is the same change.

    The successor does not wait for the lease: what the killed one locked, while it waited for a lock, is free at once.
    """
    append(folder / "0.sent", "first")
    await acknowledged(folder, 0, "first")
    assert (await system.events("queue0"))[-1]["key"] == "first"
    owner = await system.owner("queue0")
    async with connected(system) as sql, sql.transaction():
        await sql.execute("select 1 from asset where name = 'queue0' for no key update")
        append(folder / "0.sent", "second")
        await waits(system)
        assert lines(folder, 0, "acked")[-1] == "first"
        system.kill(owner["pid"])
        await eventually(lambda: other_owner(system, owner["id"]), why="another triggerer has the queue")
        await waits(system)
        assert lines(folder, 0, "acked")[-1] == "first"
        assert "second" not in {e["key"] for e in await system.events("queue0")}
    await acknowledged(folder, 0, "first", "second")
    told = [e["key"] for e in await system.events("queue0") if e["key"] in ("first", "second")]
    assert told == ["first", "second"]
    await system.verify()


async def other_owner(system: System, known: str) -> bool:
    return (await system.owner("queue0"))["id"] != known


async def test_a_triggerer_outlives_a_deadlock(system: System, folder: Path) -> None:
    """airflow #23639, #27000, #46015: somebody locks rows against the order; the triggerer tells its event again.

    The server ends either of the two; tried until it was the triggerer.
    """
    before = await triggerers(system)
    told: list[str] = []
    while "deadlock detected" not in system.log_tail(1_000_000):
        assert len(told) < 10
        told.append(f"deadlock {len(told)}")
        async with connected(system) as sql:
            try:
                async with sql.transaction():
                    await sql.execute("select 1 from asset where name = 'queue0' for no key update")
                    append(folder / "0.sent", told[-1])
                    await waits(system)
                    await sql.execute("select 1 from watcher for no key update")
            except asyncpg.DeadlockDetectedError:
                pass
        await acknowledged(folder, 0, told[-1])
    assert [e["key"] for e in await system.events("queue0")][-len(told) :] == told
    assert await triggerers(system) == before
    assert {w["strikes"] for w in await system.watchers()} == {0}
    await system.verify()
