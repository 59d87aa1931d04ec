"""A running system: `onceflow standalone` in a home of its own, and a look at its database."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from benchmarks import processes
from benchmarks.emitter import Emitter
from onceflow.config import child_environment
from onceflow.runtime.postgres import attach

Value = TypeVar("Value")

STOP_SECONDS = 20.0


@dataclass
class Setup:
    """What a measure is given: a folder to work in, the numbers of schedulers to try, and how much to do."""

    folder: Path
    schedulers: tuple[int, ...] = (1, 2)
    scale: float = 1.0
    notes: list[str] = field(default_factory=list)

    def count(self, full: int, least: int = 1) -> int:
        """So many of something, scaled down for a quick look."""
        return max(least, round(full * self.scale))

    def note(self, text: str) -> None:
        """Say something that is not a figure."""
        self.notes.append(text)
        print(text, flush=True)


class System:
    """A running `onceflow standalone`. `sql` is a plain connection for reading results."""

    def __init__(self, home: Path, process: asyncio.subprocess.Process, spawned: float) -> None:
        self.home = home
        self.process = process
        self.spawned = spawned
        self.ready = 0.0
        self.address = ""
        self.url = ""
        self.sql: Any = None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def dags(self) -> Path:
        return self.home / "dags"

    async def wait_for_dags(self, *dag_ids: str, timeout: float = 60) -> None:
        """Wait until these DAGs are registered."""
        query = "select count(*) from dag where active and dag_id = any ($1)"

        async def registered() -> bool:
            return await self.sql.fetchval(query, list(dag_ids)) == len(dag_ids)

        await until(registered, timeout, f"DAGs {', '.join(dag_ids[:3])} to be registered")

    async def wait_for_runs(self, dag_id: str, count: int, timeout: float = 300, every: float = 0.02) -> None:
        """Wait until a DAG has so many ended runs."""
        query = (
            "select count(*) from run r join dag d on d.id = r.dag_id "
            "where d.dag_id = $1 and r.state in ('success', 'failed')"
        )

        async def ended() -> bool:
            return await self.sql.fetchval(query, dag_id) >= count

        await until(ended, timeout, f"{count} runs of {dag_id}", every)
        failed = await self.sql.fetchval("select count(*) from run where state = 'failed'")
        if failed:
            raise RuntimeError(f"{failed} runs failed; see {self.home}/logs")

    async def backends(self) -> dict[int, str]:
        """PostgreSQL's processes by what they work for."""
        rows = await self.sql.fetch("select pid, application_name as name from pg_stat_activity")
        return {r["pid"]: f"postgres for {r['name']}" for r in rows if r["name"]}

    async def cpu(self) -> dict[str, processes.Cpu]:
        """CPU time of every kind of process so far."""
        return processes.cpu(self.pid, await self.backends())


async def until(condition: Callable[[], Awaitable[Value]], timeout: float, what: str, every: float = 0.02) -> Value:
    """Wait until `condition` gives something true, and return it."""
    give_up = time.monotonic() + timeout
    while not (value := await condition()):
        if time.monotonic() > give_up:
            raise TimeoutError(f"waited {timeout:g} s for {what}")
        await asyncio.sleep(every)
    return value


@asynccontextmanager
async def running(
    home: Path, files: Mapping[str, str], *options: str, schedulers: int = 2, settings: Mapping[str, str] | None = None
) -> AsyncGenerator[System]:
    """Start a system with these DAG files; when it is ready, hand it over; stop it at the end."""
    folder = home / "dags"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    log = (home / "standalone.log").open("ab")
    spawned = time.time()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "onceflow.cli.main", "--home", str(home), "standalone", "--port", "0",
        "--schedulers", str(schedulers), *options,
        stdout=asyncio.subprocess.PIPE, stderr=log, env=child_environment(settings),
    )  # fmt: skip
    log.close()
    system = System(home, process, spawned)
    try:
        await _wait_until_ready(system)
        system.sql = await asyncpg.connect(system.url)
        yield system
    finally:
        if system.sql is not None:
            system.sql.terminate()
        await _stop(process)


@asynccontextmanager
async def emitting(
    home: Path, files: Mapping[str, str], *options: str, **more: Any
) -> AsyncGenerator[tuple[System, Emitter]]:
    """A running system and a client of it."""
    async with running(home, files, *options, **more) as system, Emitter.connected(system.url) as emitter:
        yield system, emitter


async def _wait_until_ready(system: System) -> None:
    assert system.process.stdout is not None
    line = await asyncio.wait_for(system.process.stdout.readline(), 60)
    system.ready = time.time()
    if not line.startswith(b"ready "):
        raise RuntimeError(f"the system did not start: {line!r}; see {system.home}/standalone.log")
    system.address = line.decode().split()[1]
    system.url = attach(system.home) or ""


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
