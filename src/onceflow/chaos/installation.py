"""A scratch installation: a home that is thrown away, a PostgreSQL, a proxy before it, all roles behind that."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from onceflow.chaos.proxy import Proxy
from onceflow.config import Settings, child_environment
from onceflow.model.clock import boot_seconds
from onceflow.model.errors import UnreachableError
from onceflow.parse.folder import Folder
from onceflow.queries.processes import stream_processes
from onceflow.queries.rows import Row, collect
from onceflow.runtime.postgres import EmbeddedPostgres
from onceflow.store import files
from onceflow.store.database import Database, is_transient

Value = TypeVar("Value")

START_SECONDS = 60.0
STOP_SECONDS = 15.0
LOOK_SECONDS = 0.05
READY = "ready http"
PATIENCE = 3600.0
LIMITS = ("max_runs_per_minute", "max_events_per_minute")
"""Lifted: a storm is wanted here, and what it held would never settle."""


@dataclass
class Installation:
    """A running installation. `direct` reaches the database past the proxy, `behind` as the processes do."""

    settings: Settings
    postgres: EmbeddedPostgres
    proxy: Proxy
    parent: subprocess.Popen[bytes]
    direct: Database
    behind: Database

    async def processes(self, role: str | None = None) -> list[Row]:
        """The processes that hold their lease."""
        found = await self.patiently(lambda: collect(stream_processes(self.direct, role)))
        return [p for p in found if p["state"] == "running"]

    async def patiently(self, ask: Callable[[], Awaitable[Value]]) -> Value:
        """What the database answers, once it is there."""
        while True:
            try:
                return await ask()
            except Exception as error:
                if not is_transient(error) or self.parent.poll() is not None:
                    raise
                await asyncio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def installation(settings: Settings) -> AsyncIterator[Installation]:
    """Start one with these numbers of roles and this DAG folder, and end it; `settings.home` is where its log is kept.

    Raises UnreachableError if not all roles are there within a minute.
    """
    with tempfile.TemporaryDirectory(prefix="onceflow-chaos-") as folder:
        home = Path(folder)
        (sockets := home / "proxy").mkdir(mode=0o700)
        with EmbeddedPostgres(home / "database", settings.pg_bindir) as postgres:
            async with Proxy(postgres.url, sockets) as proxy:
                settings = replace(settings, dags=settings.dags_folder, home=home / "home", database_url=proxy.url)
                parent = _start(settings)
                try:
                    async with _connected(postgres.url) as direct, _connected(proxy.url) as behind:
                        running = Installation(settings, postgres, proxy, parent, direct, behind)
                        await _ready(running)
                        yield running
                finally:
                    _end(parent)


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Database]:
    async with await Database.connect(url, max_size=4, kind="chaos", lease_seconds=PATIENCE, hot=False) as database:
        yield database


def _start(settings: Settings) -> subprocess.Popen[bytes]:
    names = ("database_url", "dags", "lease_seconds", "worker_slots", "log_level")
    values = {name: str(getattr(settings, name)) for name in names} | dict.fromkeys(LIMITS, "0")
    environment = child_environment({f"ONCEFLOW_{name.upper()}": value for name, value in values.items()})
    command = [sys.executable, "-m", "onceflow.cli.main", "--home", str(settings.home), "standalone", "--port", "0"]
    for role in ("schedulers", "triggerers", "workers"):
        command += [f"--{role}", str(getattr(settings, role))]
    settings.home.mkdir(mode=0o700)
    with (settings.home / "log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


async def _ready(running: Installation) -> None:
    """Wait until the API server serves, the DAG files are read and every role is there."""
    log = running.settings.home / "log"
    folder = Folder(running.settings.dags_folder)
    folder.look()
    wanted = running.settings.schedulers + running.settings.triggerers + running.settings.workers + 2
    give_up = boot_seconds() + START_SECONDS
    while boot_seconds() < give_up and running.parent.poll() is None:
        if READY in log.read_text(errors="replace") and len(await running.processes()) >= wanted:
            known = await running.patiently(lambda: files.known(running.direct))
            if folder.seen.keys() <= {path for path, file in known.items() if file.source_hash or file.failure}:
                return
        await asyncio.sleep(LOOK_SECONDS)
    said = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
    raise UnreachableError(f"the scratch installation did not start:\n{said}")


def _end(parent: subprocess.Popen[bytes]) -> None:
    """Stop it; what is frozen goes on, and what does not end is killed with its children."""
    parent.send_signal(signal.SIGTERM)
    try:
        parent.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        parent.kill()
        parent.wait()
