"""The guests of a worker: real processes, forked from a template that has loaded a DAG file."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onceflow.config import Settings
from onceflow.model.dagspec import DagSpec, NoSchedule, TaskSpec
from onceflow.model.states import Outcome
from onceflow.model.upstream import Graph
from onceflow.runtime.role import Role
from onceflow.runtime.wakeups import Wakeups
from onceflow.store.database import Database
from onceflow.store.tasks import ClaimedTask
from onceflow.store.versions import Version
from onceflow.worker.host import Guests
from onceflow.worker.templates import keep_source, source_file
from support import alive, eventually

CODE = """
import os
import time
from pathlib import Path

from onceflow import DAG, task

with DAG("d"):
    @task
    def work(dag_run, ti):
        folder = Path(dag_run.conf["folder"])
        (folder / f"pid-{ti.attempt}").write_text(str(os.getpid()))
        while not (folder / f"go-{ti.attempt}").exists():
            time.sleep(0.02)
        return ti.attempt
    work()
"""
NOW = datetime(2030, 1, 1, tzinfo=UTC)
SPEC = DagSpec("d", NoSchedule(), (TaskSpec("work"),), "d.py", where="d.py:1")


@pytest.fixture
async def guests(database: Database, tmp_path: Path) -> AsyncIterator[Guests]:
    settings = Settings(database_url=database.url, home=tmp_path / "home", dags=tmp_path / "dags")
    settings.dags_folder.mkdir()
    (settings.dags_folder / "d.py").write_text(CODE)
    keep_source(source_file(settings, "hash"), CODE.encode())
    guests = Guests(Role("worker", uuid.uuid4(), settings, database, Wakeups()))
    async with asyncio.TaskGroup() as group:
        guests.attach(group)
        yield guests
        await guests.stop()
    guests.close()


def attempt(number: int, folder: Path) -> ClaimedTask:
    fields = {
        "run_name": "run",
        "run_type": "manual",
        "logical_date": None,
        "conf": f'{{"folder": "{folder}"}}',
        "created_at": NOW,
        "started_at": NOW,
    }
    return ClaimedTask(7, 1, "work", -1, number, uuid.uuid4(), 0, 1, "hash", "d", fields)


async def test_the_next_attempt_of_a_task_beside_a_lost_one(guests: Guests, tmp_path: Path) -> None:
    """The worker was out of reach for longer than its lease, and took the task again before it knew."""
    version = Version(1, SPEC, Graph(SPEC))
    old, new = attempt(1, tmp_path), attempt(2, tmp_path)
    guests.launch(old, version)
    pid = int(await eventually(lambda: (tmp_path / "pid-1").exists() and (tmp_path / "pid-1").read_text()))
    guests.launch(new, version)
    await eventually((tmp_path / "pid-2").exists, why="the next attempt runs")
    await eventually(lambda: not alive(pid), why="the lost one is killed")
    await eventually(lambda: set(guests.running) == {new.token}, why="the next one goes on")
    assert guests.reports == []
    (tmp_path / "go-2").touch()
    await eventually(lambda: not guests.running)
    assert [(r.attempt, r.outcome, r.value) for r in guests.reports] == [(2, Outcome.SUCCESS, "2")]


async def test_the_next_attempt_of_a_task_whose_last_one_has_not_quite_ended(guests: Guests, tmp_path: Path) -> None:
    """A guest's result is taken for its end; its task may be tried again before the process has gone."""
    version = Version(1, SPEC, Graph(SPEC))
    for number in range(1, 11):
        (tmp_path / f"go-{number}").touch()
        guests.launch(attempt(number, tmp_path), version)
        await eventually(lambda number=number: len(guests.reports) == number, every=0.0005)
    await eventually(lambda: not guests.running)
    assert [(r.attempt, r.outcome) for r in guests.reports] == [(n, Outcome.SUCCESS) for n in range(1, 11)]
