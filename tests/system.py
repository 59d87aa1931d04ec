"""A running Onceflow for tests: real processes over a real PostgreSQL, to be killed, frozen and watched.

    async with System(tmp_path, database_url, schedulers=2, workers=1) as system:
        await system.register("pipeline.py", PIPELINE)
        await system.emit("orders", "a")
        [run] = await system.finished("report", 1)

One `onceflow standalone` starts all roles; each role is a child of it, restarted when it dies, and its pid is in
`processes`. Without a database address it runs the embedded server under its home. What people see is read with the
read models that the command line prints; `cli` and `json` run the command itself.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from onceflow.model.errors import OnceflowError
from onceflow.parse.folder import digest
from onceflow.queries.dags import list_dags, show_dag, stream_errors
from onceflow.queries.events import EventFilter, stream_events
from onceflow.queries.processes import stream_processes
from onceflow.queries.rows import Row, collect
from onceflow.queries.runs import RunFilter, stream_runs
from onceflow.queries.tasks import list_attempts, stream_tasks
from onceflow.queries.verify import verify
from onceflow.queries.watchers import stream_watchers
from onceflow.runtime.postgres import EmbeddedPostgres, attach
from onceflow.store import files
from onceflow.store.dags import pause, unpause
from onceflow.store.database import Database
from onceflow.store.emit import change, emit
from onceflow.store.events import Recorded
from onceflow.store.notify import notify_once
from onceflow.store.runs import create_manual
from support import alive, drop_database, eventually, execute, with_database

LEASE_SECONDS = 1.0
STOP_SECONDS = 60.0
SHOWN_OF_LOG = 12_000
ENDED = ("success", "failed")

running: list[System] = []
"""The systems under way; their logs are shown when a test fails."""


class System:
    """One installation: a home, a DAG folder, a database, processes.

    Numbers of roles are given by `schedulers`, `triggerers`, `workers`; other `settings` by their names.
    """

    def __init__(
        self,
        folder: Path,
        database_url: str = "",
        *,
        schedulers: int = 1,
        triggerers: int = 0,
        workers: int = 1,
        **settings: object,
    ) -> None:
        self.home = folder / "home"
        self.dags = folder / "dags"
        self.log = folder / "system.log"
        self.output = folder / "system.out"
        self.counts = {"scheduler": schedulers, "triggerer": triggerers, "worker": workers, "dag-processor": 1}
        self._given_url = database_url
        self._settings = {"lease_seconds": LEASE_SECONDS, "log_format": "json"} | settings
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen: set[int] = set()
        self.pids: set[int] = set()
        """Every process of ours that was ever seen."""
        self.dags.mkdir(parents=True, exist_ok=True)

    # Start and end ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> System:
        self.start()
        try:
            await self.ready()
        except BaseException:
            print(self.log_tail())
            self.end()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            print(self.log_tail())
        self.end()

    def start(self) -> None:
        """Start the processes; `ready` waits for them."""
        if self not in running:
            running.append(self)
        command = [sys.executable, "-m", "onceflow.cli.main", "--home", str(self.home), "standalone", "--port", "0"]
        command += ["--dags", str(self.dags)]
        for kind in ("scheduler", "triggerer", "worker"):
            command += [f"--{kind}s", str(self.counts[kind])]
        with self.log.open("ab") as log, self.output.open("ab") as output:
            self._process = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=log, cwd=self.home.parent
            )

    async def ready(self) -> None:
        """Wait until every role has registered."""

        async def up() -> bool:
            assert self.parent.poll() is None, f"standalone ended with {self.parent.returncode}"
            try:
                seen = await self.processes()
            except asyncpg.UndefinedTableError as error:
                raise AssertionError("not migrated yet") from error
            missing = {k: n for k, n in self.counts.items() if sum(p["kind"] == k for p in seen) < n}
            assert not missing, (missing, [(p["kind"], p["pid"], p["state"]) for p in await self.processes(state=None)])
            return True

        await eventually(up, every=0.1, why="every role is running")

    def stop(self) -> int:
        """Send SIGTERM and wait; the exit code."""
        self.thaw_all()
        self.parent.terminate()
        return self.parent.wait(STOP_SECONDS)

    def end(self) -> None:
        """End everything that still runs, whatever happened before."""
        if self in running:
            running.remove(self)
        if self._process is None:
            return
        self.thaw_all()
        try:
            if self.parent.poll() is None:
                self.stop()
        except subprocess.TimeoutExpired:
            self.parent.kill()  # its children die with it
            self.parent.wait()
        for pid in self.pids:
            if alive(pid) and "onceflow" in command_line(pid):
                os.kill(pid, signal.SIGKILL)

    def descendants(self) -> list[int]:
        """Every process below the parent, guests and the database's too."""
        return children(self.parent.pid)

    @property
    def parent(self) -> subprocess.Popen[bytes]:
        """The process of `onceflow standalone`."""
        assert self._process is not None
        return self._process

    @property
    def environment(self) -> dict[str, str]:
        """For commands on this system."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ONCEFLOW_") or k == "ONCEFLOW_PG_BINDIR"}
        ours = {f"ONCEFLOW_{name.upper()}": str(value) for name, value in self._settings.items()}
        if self._given_url:
            ours["ONCEFLOW_DATABASE_URL"] = self._given_url
        return kept | ours

    @property
    def url(self) -> str:
        """The database's address; while the embedded server does not run that is an AssertionError."""
        url = self._given_url or attach(self.home)
        assert url, "the database does not run"
        return url

    def log_tail(self, size: int = SHOWN_OF_LOG) -> str:
        """The end of what all processes said."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return text[-size:]

    # Faults ----------------------------------------------------------------------------------------------------------

    def kill(self, pid: int, signum: int = signal.SIGKILL) -> None:
        """End a process of this system."""
        self._frozen.discard(pid)
        os.kill(pid, signum)

    def freeze(self, pid: int) -> None:
        """Stop a process in its tracks, until `thaw`."""
        self._frozen.add(pid)
        os.kill(pid, signal.SIGSTOP)

    def thaw(self, *pids: int) -> None:
        """Let frozen processes go on."""
        for pid in list(pids):
            self._frozen.discard(pid)
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue

    def thaw_all(self) -> None:
        """Let all frozen processes go on."""
        self.thaw(*self._frozen)

    async def owner(self, asset: str) -> Row:
        """The triggerer that owns the asset's watcher: its row of `processes`."""

        async def owned() -> Row | None:
            [watcher] = await self.watchers(asset)
            return next((p for p in await self.processes("triggerer") if p["id"] == watcher["owner"]), None)

        found = await eventually(owned, every=0.05, why=f"the watcher of {asset} has a live owner")
        assert found is not None
        return found

    # DAG files -------------------------------------------------------------------------------------------------------

    def write(self, name: str, text: str) -> bytes:
        """Save a file in the DAG folder, whole; its content."""
        path = self.dags / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = textwrap.dedent(text).encode()
        draft = path.with_name(f".{path.name}")
        draft.write_bytes(content)
        draft.replace(path)
        return content

    async def register(self, name: str, text: str) -> files.KnownFile:
        """Save a DAG file and wait until it is registered, broken or not."""
        content = self.write(name, text)

        async def seen() -> files.KnownFile | None:
            async with self.database() as database:
                known = (await files.known(database)).get(name)
            if known is None:
                return None
            failed = known.failure is not None and known.source_hash == ""
            return known if known.source_hash == digest(content) or failed else None

        found = await eventually(seen, every=0.05, why=f"{name} is registered")
        assert found is not None
        return found

    async def sound(self, name: str, text: str) -> None:
        """`register` a file that has no error."""
        known = await self.register(name, text)
        assert known.failure is None, known.failure

    # What people see -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def database(self) -> AsyncIterator[Database]:
        """A connection of its own."""
        try:
            database = await Database.connect(self.url, max_size=1, hot=False)
        except OnceflowError as error:
            raise AssertionError(str(error)) from error
        async with database:
            yield database

    async def runs(self, dag_id: str | None = None, *, run_id: str | None = None) -> list[Row]:
        async with self.database() as database:
            return await collect(stream_runs(database, RunFilter(dag_id=dag_id, run_id=run_id)))

    async def events(self, asset: str | None = None) -> list[Row]:
        async with self.database() as database:
            return await collect(stream_events(database, EventFilter(asset=asset)))

    async def tasks(self, dag_id: str | None = None, run_id: str | None = None) -> list[Row]:
        async with self.database() as database:
            return await collect(stream_tasks(database, dag_id, run_id))

    async def attempts(self, dag_id: str, run_id: str, task_id: str | None = None) -> list[Row]:
        async with self.database() as database:
            return await list_attempts(database, dag_id, run_id, task_id)

    async def watchers(self, asset: str | None = None, *, removed: bool = False) -> list[Row]:
        async with self.database() as database:
            return await collect(stream_watchers(database, asset, active=None if removed else True))

    async def processes(self, kind: str | None = None, *, state: str | None = "running") -> list[Row]:
        async with self.database() as database:
            found = await collect(stream_processes(database, kind))
        self.pids.update(p["pid"] for p in found)
        return [p for p in found if state is None or p["state"] == state]

    async def dag(self, dag_id: str) -> Row:
        async with self.database() as database:
            return await show_dag(database, dag_id)

    async def dag_ids(self) -> list[str]:
        async with self.database() as database:
            return [row["dag_id"] for row in (await list_dags(database)).rows]

    async def errors(self) -> list[Row]:
        async with self.database() as database:
            return await collect(stream_errors(database))

    async def verify(self) -> Row:
        """What `onceflow verify` says; it has to be ok."""
        async with self.database() as database:
            found = await verify(database)
        assert found["ok"], found["violations"]
        return found

    async def cli(
        self, *arguments: str, given: str = "", home: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; `given` is its standard input."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "onceflow.cli.main", "--home", str(home or self.home), *arguments),
            env=self.environment | dict(environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await process.communicate(given.encode())
        assert process.returncode is not None
        return subprocess.CompletedProcess(arguments, process.returncode, out.decode(), err.decode())

    async def json(self, *arguments: str) -> Any:
        """What a command says with `-o json`; it has to succeed."""
        done = await self.cli(*arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    # What people do --------------------------------------------------------------------------------------------------

    async def emit(self, asset: str, *keys: str | None, extra: Any = None) -> list[Recorded]:
        """Emit one change per key, each in a transaction of its own, as `assets emit` does."""
        async with self.database() as database:
            stored = [answer for key in keys for answer in await emit(database, [change(asset, key, extra)], SOURCE)]
            await notify_once(database, "delivery")
        return stored

    async def trigger(self, dag_id: str, conf: dict[str, Any] | None = None) -> str:
        """Start a run by hand, as `dags trigger` does; its run id."""
        async with self.database() as database:
            made = await create_manual(database, dag_id, conf=conf, by=SOURCE)
            assert made is not None, f"there is no DAG {dag_id}"
            await notify_once(database, "run", "dag")
        return made.run_id

    async def pause(self, dag_id: str) -> None:
        async with self.database() as database:
            assert await pause(database, dag_id, by={"kind": "test"}) is not None
            await notify_once(database, "delivery", "run", "dag")

    async def unpause(self, dag_id: str) -> None:
        async with self.database() as database:
            assert await unpause(database, dag_id, by={"kind": "test"}) is not None
            await notify_once(database, "delivery", "run", "dag")

    async def run(self, dag_id: str, conf: dict[str, Any] | None = None) -> Row:
        """Start a run by hand and wait for its end."""
        run_id = await self.trigger(dag_id, conf)
        return await self.ended(dag_id, run_id)

    async def ended(self, dag_id: str, run_id: str) -> Row:
        """Wait for the end of a run."""

        async def over() -> Row | None:
            [run] = await self.runs(dag_id, run_id=run_id)
            assert run["state"] in ENDED, [
                run["state"],
                *((t["task_id"], t["state"]) for t in await self.tasks(dag_id, run_id)),
            ]
            return run

        found = await eventually(over, every=0.1, why=f"run {run_id} of {dag_id} has ended")
        assert found is not None
        return found

    async def finished(self, dag_id: str, count: int) -> list[Row]:
        """Wait until a DAG has at least so many runs and all have ended."""

        async def all_ended() -> list[Row] | None:
            states = await self.count_runs(dag_id)
            over = sum(states.get(s, 0) for s in ENDED)
            assert over >= count and over == sum(states.values()), states
            return await self.runs(dag_id)

        found = await eventually(all_ended, every=0.1, why=f"{count} runs of {dag_id} have ended")
        assert found is not None
        return found

    async def count_runs(self, dag_id: str) -> dict[str, int]:
        """Runs of a DAG by state."""
        rows = await self.sql(
            "select r.state::text, count(*) from run r join dag d on d.id = r.dag_id where d.dag_id = $1 group by 1",
            dag_id,
        )
        return {row[0]: row[1] for row in rows}

    async def sql(self, statement: str, *args: Any) -> Sequence[Any]:
        """Rows that no read model has."""
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetch(statement, *args)
        finally:
            await connection.close()


SOURCE = {"kind": "test"}


names = itertools.count(1)


@pytest.fixture(scope="module")
def module_database(pg_server: EmbeddedPostgres, pg_template: str) -> Iterator[str]:
    """The address of a migrated database that is this module's alone."""
    name = f"system_{next(names)}"
    asyncio.run(execute(pg_server.url, f"CREATE DATABASE {name} TEMPLATE {pg_template}"))
    try:
        yield with_database(pg_server.url, name)
    finally:
        asyncio.run(drop_database(pg_server.url, name))


@contextmanager
def shared(system: System) -> Iterator[System]:
    """A system for all tests of a module, for a fixture of that scope. At the end nothing may be amiss in it."""
    asyncio.run(system.__aenter__())
    try:
        yield system
        asyncio.run(system.verify())
    finally:
        system.end()


@pytest.hookimpl(hookwrapper=True)
def show_logs(item: pytest.Item) -> Iterator[None]:
    """Add what the running systems logged to the report of a test that failed (a `pytest_runtest_makereport`)."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed:
        report.sections += [(f"log of {s.home.parent.name}", s.log_tail()) for s in running]


def children(pid: int) -> list[int]:
    """The processes below one, with theirs."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    queue = [pid]
    while queue:
        below = parents.get(queue.pop(), [])
        found += below
        queue += below
    return found


def command_line(pid: int) -> str:
    """How a process was started; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def gone(pids: Iterable[int]) -> None:
    """Wait until none of the processes is left."""
    pids = list(pids)
    await eventually(lambda: not [p for p in pids if alive(p)], every=0.05, why=f"none of {pids} is left")
