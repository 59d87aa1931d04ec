"""Surroundings that are not ours to choose: poolers, no notifications, wrong clocks, old snapshots, PostgreSQL 15, 18.

The same work is done in each: changes by a watcher and by hand, told twice, a task with an outlet, a death of each kind
of process; and each change has its one run.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from onceflow.chaos.proxy import CHUNK, Proxy
from onceflow.model.clock import utcnow
from onceflow.model.times import from_rfc3339
from onceflow.runtime.postgres_binaries import choose_identity, find_binaries, major_version
from support import eventually
from system import System
from watched import MODULE, TRIGGER, append, pipeline

NOTIFICATION = b"A"
FAKETIME = next(iter(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
HALF_AN_HOUR = timedelta(minutes=30)
DEBIANS_15 = Path("/usr/lib/postgresql/15/bin")

DAGS = """
    from datetime import timedelta

    from onceflow import DAG, Asset, task

    with DAG("make", schedule=Asset("orders"), max_active_runs=100):
        @task(outlets=[Asset("made")])
        def work(): ...
        work()

    with DAG("follow", schedule=Asset("made"), max_active_runs=100):
        pass

    with DAG("ticks", schedule=timedelta(seconds=1), catchup=True, max_active_runs=100):
        pass
"""


async def do_the_work(system: System, folder: Path, count: int = 8) -> None:
    """Changes by a watcher and by hand, each told twice; one process of each kind dies on the way."""
    lines = folder / "lines"
    system.write(MODULE, TRIGGER)
    await system.sound("dags.py", DAGS)
    await system.sound("fed.py", pipeline("fed", lines))
    keys = [str(n) for n in range(count)]
    half = count // 2
    append(lines, *keys[:half])
    await system.emit("orders", *keys[:half])
    await system.finished("fed", half)
    for kind in ("scheduler", "worker"):
        os.kill((await system.processes(kind))[0]["pid"], signal.SIGKILL)
    os.kill((await system.owner("fed"))["pid"], signal.SIGKILL)
    append(lines, *keys[half:])
    await system.emit("orders", *keys)
    for dag_id in ("fed", "make", "follow"):
        runs = await system.finished(dag_id, count)
        assert [r["state"] for r in runs] == ["success"] * count
    assert [e["key"] for e in await system.events("fed")] == keys
    assert [e["witnesses"] for e in await system.events("orders")] == [2] * half + [1] * (count - half)
    ticks = [r["logical_date"] for r in await system.runs("ticks")]
    assert len(set(ticks)) == len(ticks) > 0
    await system.verify()


class Elsewhere(System):
    """A system whose processes reach the database by another address than the test."""

    def __init__(self, folder: Path, url: str, direct: str, **how: object) -> None:
        super().__init__(folder, url, **how)  # type: ignore[arg-type]
        self._direct = direct

    @property
    def url(self) -> str:
        return self._direct


# A pooler -----------------------------------------------------------------------------------------------------------


@contextmanager
def pgbouncer(url: str, folder: Path) -> Iterator[str]:
    """A pgbouncer in transaction mode before the server of this address."""
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    database = parts.path.strip("/")
    at = f"host={asked['host'][0]} port={asked['port'][0]} user={parts.username} password={parts.password}"
    sockets = folder / "b"
    sockets.mkdir()
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n{database} = {at}\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {sockets}\n"
        f"auth_type = any\npool_mode = transaction\ndefault_pool_size = 8\nlogfile = {folder / 'pgbouncer.log'}\n"
        "ignore_startup_parameters = extra_float_digits\n"
    )
    assert PGBOUNCER is not None
    identity = choose_identity(find_binaries())
    command = identity.command(Path(PGBOUNCER), str(settings), end_signal=signal.SIGINT)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"postgresql://{parts.username}@/{database}?host={sockets}&port=6432"
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.skipif(PGBOUNCER is None, reason="there is no pgbouncer")
async def test_through_a_pooler_by_transactions(tmp_path: Path, database_url: str) -> None:
    """PrefectHQ/prefect PR#21089: no LISTEN, no settings of a session, no prepared statements."""
    with pgbouncer(database_url, tmp_path) as url:
        how = {"schedulers": 2, "triggerers": 2, "workers": 2, "database_pooler": "transaction"}
        async with Elsewhere(tmp_path, url, database_url, **how) as system:
            await do_the_work(system, tmp_path)


# No notifications ---------------------------------------------------------------------------------------------------


class Deaf(Proxy):
    """Lets everything through but notifications. `withheld` counts them."""

    withheld = 0

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        if not answers:
            await super()._pass_on(reader, writer, answers=answers)
            return
        unread = b""
        try:
            while piece := await reader.read(CHUNK):
                unread += piece
                while len(unread) >= 5 and len(unread) > (size := int.from_bytes(unread[1:5], "big")):
                    message, unread = unread[: size + 1], unread[size + 1 :]
                    if message.startswith(NOTIFICATION):
                        self.withheld += 1
                    else:
                        writer.write(message)
                await writer.drain()
            writer.close()
        except OSError:
            writer.transport.abort()


async def test_without_notifications_it_is_only_slower(tmp_path: Path, database_url: str) -> None:
    """PrefectHQ/prefect PR#21089: polling is the truth."""
    (sockets := tmp_path / "p").mkdir()
    async with Deaf(database_url, sockets) as deaf:
        how = {"schedulers": 2, "triggerers": 2, "workers": 2}
        async with Elsewhere(tmp_path, deaf.url, database_url, **how) as system:
            await do_the_work(system, tmp_path)
        assert deaf.withheld > 0


# Clocks -------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(FAKETIME is None, reason="there is no faketime")
async def test_clocks_of_processes_an_hour_ahead_and_behind(tmp_path: Path, database_url: str) -> None:
    """hatchet-dev/hatchet#4129: the database's clock decides; ±1 h of a process changes nothing."""
    async with AsyncExitStack() as stack:
        system = System(tmp_path, database_url, schedulers=0, triggerers=0, workers=0)
        await stack.enter_async_context(system)
        for kind in ("scheduler", "triggerer", "worker"):
            for offset in ("+1h", "-1h"):
                stack.enter_context(role(system, kind, offset))
        await eventually(lambda: all_there(system), every=0.2, why="roles with other clocks are there")
        await do_the_work(system, tmp_path)
        said = [from_rfc3339(stamp) for stamp in re.findall(r'"timestamp": "([^"]+)"', system.log.read_text())]
        assert min(said) < utcnow() - HALF_AN_HOUR and max(said) > utcnow() + HALF_AN_HOUR, "their clocks are right"


@contextmanager
def role(system: System, kind: str, offset: str) -> Iterator[None]:
    """One role as a command of its own, whose clock is off."""
    clock = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    command = [sys.executable, "-m", "onceflow.cli.main", "--home", str(system.home), kind]
    command += [] if kind == "scheduler" else ["--dags", str(system.dags)]
    with system.log.open("ab") as log:
        process = subprocess.Popen(
            command, env=system.environment | clock, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


async def all_there(system: System) -> bool:
    seen = [p["kind"] for p in await system.processes()]
    missing = [k for k in ("scheduler", "triggerer", "worker") if seen.count(k) < 2]
    assert not missing, missing
    return True


# Snapshots ----------------------------------------------------------------------------------------------------------


async def test_with_a_snapshot_held_open(tmp_path: Path, database_url: str) -> None:
    """airflow #54283: what a long report keeps from being vacuumed makes nothing wrong."""
    reader = await asyncpg.connect(database_url)
    try:
        await reader.execute("begin isolation level repeatable read")
        assert await reader.fetchval("select count(*) from event") == 0
        async with System(tmp_path, database_url, schedulers=2, triggerers=2, workers=2) as system:
            await do_the_work(system, tmp_path, count=60)
        assert await reader.fetchval("select count(*) from event") == 0
    finally:
        await reader.close()


# Versions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("major", [15, 18])
async def test_on_the_oldest_and_the_newest_postgresql(tmp_path: Path, major: int) -> None:
    """apache/airflow #71250: what is supported works, embedded."""
    bindir = DEBIANS_15 if major == 15 else find_binaries().folder
    if major_version(bindir) != major:
        pytest.skip(f"there is no PostgreSQL {major} in {bindir}")
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).delenv("ONCEFLOW_PG_BINDIR", raising=False)
        async with System(tmp_path, schedulers=2, triggerers=2, workers=2, pg_bindir=bindir) as system:
            [(version,)] = await system.sql("show server_version_num")
            assert int(version) // 10_000 == major
            await do_the_work(system, tmp_path)
