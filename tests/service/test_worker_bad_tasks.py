"""Tasks and DAG files that do what nobody should: each harms its own attempt, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import signal
import textwrap
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onceflow.config import Settings
from onceflow.model.dagspec import DagSpec, NoSchedule, TaskSpec
from onceflow.model.states import Outcome
from onceflow.model.upstream import Graph
from onceflow.runtime.logs import attempt_log
from onceflow.runtime.role import Role
from onceflow.runtime.wakeups import Wakeups
from onceflow.store.database import Database
from onceflow.store.tasks import ClaimedTask, Report
from onceflow.store.versions import Version
from onceflow.worker.host import Guests
from onceflow.worker.templates import keep_source, source_file
from support import alive, eventually

HEAD = """
import os, subprocess, sys, time
from pathlib import Path
from onceflow import DAG, task

HERE = Path({folder!r})
"""
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class Worker:
    """Guests, and a DAG file of one task for them."""

    guests: Guests
    settings: Settings
    folder: Path
    attempts: int = 0

    def launch(self, body: str, isolation: str = "auto", top: str = "") -> None:
        """Start an attempt of a task with this body."""
        code = HEAD.format(folder=str(self.folder)) + textwrap.dedent(top)
        code += '\nwith DAG("d"):\n    @task\n    def work(ti):\n' + textwrap.indent(textwrap.dedent(body), " " * 8)
        code += "\n    work()\n"
        digest = uuid.uuid5(uuid.NAMESPACE_OID, code).hex
        if not source_file(self.settings, digest).exists():
            keep_source(source_file(self.settings, digest), code.encode())
        spec = DagSpec("d", NoSchedule(), (TaskSpec("work", isolation=isolation),), "d.py", where="d.py:1")
        self.attempts += 1
        times = dict.fromkeys(("created_at", "started_at"), NOW)
        fields = {"run_name": "run", "run_type": "manual", "logical_date": None, "conf": None, **times}
        task = ClaimedTask(7, 1, "work", -1, self.attempts, uuid.uuid4(), 0, 1, digest, "d", fields)
        self.guests.launch(task, Version(1, spec, Graph(spec)))

    async def report(self, body: str, isolation: str = "auto", top: str = "") -> Report:
        """How such an attempt ended."""
        self.launch(body, isolation, top)
        await eventually(lambda: not self.guests.running, why="the attempt has ended")
        return self.guests.reports.pop()

    def log(self) -> str:
        return Path(attempt_log(self.settings.home, 1, 7, self.attempts)).read_text(encoding="utf-8")

    async def pid(self, name: str) -> int:
        """The process id that was written to that file."""
        path = self.folder / name
        return int(await eventually(lambda: path.exists() and path.read_text(), why=f"{name} is written"))


@pytest.fixture
async def make(database: Database, tmp_path: Path) -> AsyncIterator[Callable[..., Worker]]:
    made: list[Worker] = []
    async with asyncio.TaskGroup() as group:

        def worker(**options: float) -> Worker:
            settings = Settings(database_url=database.url, home=tmp_path / "home", dags=tmp_path / "dags", **options)  # type: ignore[arg-type]
            settings.dags_folder.mkdir()
            guests = Guests(Role("worker", uuid.uuid4(), settings, database, Wakeups()))
            guests.attach(group)
            made.append(Worker(guests, settings, tmp_path))
            return made[-1]

        yield worker
        for one in made:
            await one.guests.stop()
    for one in made:
        one.guests.close()


@pytest.fixture
def worker(make: Callable[..., Worker]) -> Worker:
    return make()


async def test_a_task_that_kills_its_template_harms_no_later_one(worker: Worker) -> None:
    """Out of memory kills templates too: what ran in them is lost, not failed, and the next task gets a new one."""
    body = "(HERE / 'parent').write_text(str(os.getppid()))\nif ti.attempt == 1: os.kill(os.getppid(), 9)\n"
    worker.launch(body + "time.sleep(1 if ti.attempt == 1 else 0)")
    template = await worker.pid("parent")
    await eventually(lambda: not alive(template), why="the template is killed")
    await eventually(lambda: not worker.guests.running)
    assert worker.guests.reports == []
    assert (await worker.report(body + "time.sleep(1 if ti.attempt == 1 else 0)")).outcome is Outcome.SUCCESS


@pytest.mark.parametrize("isolation", ["fork", "fresh"])
async def test_what_an_attempt_started_ends_with_it(worker: Worker, isolation: str) -> None:
    start = "(HERE / 'child').write_text(str(subprocess.Popen(['sleep', '600']).pid))"
    assert (await worker.report(start, isolation)).outcome is Outcome.SUCCESS
    child = await worker.pid("child")
    await eventually(lambda: not alive(child), why="the child is killed")


async def test_a_child_that_comes_back_gives_no_result(worker: Worker) -> None:
    body = """
    pid = os.fork()
    if pid == 0:
        return "child"
    os.waitpid(pid, 0)
    return "parent"
    """
    found = await worker.report(body)
    assert (found.outcome, found.value) == (Outcome.SUCCESS, '"parent"')


async def test_a_child_may_not_ask_in_the_tasks_name(worker: Worker) -> None:
    body = """
    pid = os.fork()
    if pid == 0:
        try:
            ti.xcom_pull("work")
        except RuntimeError as error:
            print(error)
        os._exit(0)
    os.waitpid(pid, 0)
    """
    assert (await worker.report(body)).outcome is Outcome.SUCCESS
    assert "only the task's own process" in worker.log()


@pytest.mark.parametrize("isolation", ["fork", "fresh"])
async def test_a_file_that_never_ends_at_its_top_level(make: Callable[..., Worker], isolation: str) -> None:
    worker = make(parse_timeout=1.5)
    found = await worker.report("return 1", isolation, top="time.sleep(600)")
    assert found.outcome is Outcome.FAILED
    assert json.loads(found.error or "")["message"] == "loading the DAG file took longer than 1.5 s"
    assert "took longer" in worker.log()
    assert (await worker.report("return 1", isolation)).outcome is Outcome.SUCCESS


async def test_a_file_that_forks_at_its_top_level(worker: Worker) -> None:
    top = "pid = os.fork()\nif pid == 0: (HERE / 'child').write_text(str(os.getpid()))"
    assert (await worker.report("return 1", top=top)).value == "1"
    child = await worker.pid("child")
    await eventually(lambda: not alive(child), why="the other process is no template")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (r"raise ValueError('a\0b\ud800')", r"a\x00b\ud800"),
        (
            "class Odd(Exception):\n    def __str__(self): raise SystemExit(0)\nraise Odd",
            "(its message cannot be shown",
        ),
        ("raise ValueError('x' * 80_000_000)", "characters left out"),
    ],
)
async def test_exceptions_that_cannot_be_told_as_they_are(worker: Worker, body: str, message: str) -> None:
    found = await worker.report(body)
    assert found.outcome is Outcome.FAILED
    assert message in json.loads(found.error or "")["message"]


async def test_any_text_can_be_printed(worker: Worker) -> None:
    assert (await worker.report(r"print('ä 💥 \udcff')")).outcome is Outcome.SUCCESS
    assert r"ä 💥 \udcff" in worker.log()


@pytest.mark.parametrize("junk", [rb"\xff\xff\xff\xff", rb"\0\0\0\x03nul", rb"\0\0\0\x011"])
async def test_bytes_on_the_socket_that_are_no_message(worker: Worker, junk: bytes) -> None:
    body = f"""
    for descriptor in range(3, 30):
        try:
            os.write(descriptor, b"{junk.decode()}")
        except OSError:
            continue
    time.sleep(0.5)
    """
    found = await worker.report(body)
    assert found.outcome in {Outcome.CRASHED, Outcome.KILLED}
    assert found.exit_code != -signal.SIGSEGV
    assert (await worker.report("return 1")).outcome is Outcome.SUCCESS


async def test_a_log_that_cannot_be_written(worker: Worker) -> None:
    worker.settings.home.mkdir()
    (worker.settings.home / "logs").write_text("in the way")
    found = await worker.report("return 1")
    assert found.outcome is Outcome.FAILED
    assert "logs" in json.loads(found.error or "")["message"]
