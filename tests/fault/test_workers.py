"""Workers that are killed, frozen or told to stop while a task runs. Both that are there share the work."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow.queries.rows import Row
from onceflow.runtime.postgres import EmbeddedPostgres
from support import alive, eventually
from system import System, children, command_line, gone, shared

WAITING = """
    import os
    import time
    from pathlib import Path

    from onceflow import DAG, Asset, task

    with DAG("waiting"):
        @task(outlets=[Asset("made")])
        def work(dag_run, ti):
            folder = Path(dag_run.conf["folder"])
            (folder / f"pid-{ti.attempt}").write_text(str(os.getpid()))
            while not (folder / f"go-{ti.attempt}").exists():
                time.sleep(0.02)
            (folder / f"done-{ti.attempt}").touch()
            return ti.attempt
        work()

    with DAG("quick"):
        @task
        def work():
            return os.getppid()
        work()
"""


@pytest.fixture(scope="module")
def system(
    module_database: str, pg_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    with shared(System(tmp_path_factory.mktemp("workers"), module_database, schedulers=2, workers=2)) as system:
        yield system


@pytest.fixture(autouse=True)
async def prepared(system: System) -> None:
    await system.sound("waiting.py", WAITING)
    await system.ready()


class Waiting:
    """A run of the DAG that waits, and the attempts of its task."""

    def __init__(self, system: System, folder: Path, run_id: str) -> None:
        self.system = system
        self.folder = folder
        self.run_id = run_id

    @classmethod
    async def start(cls, system: System, folder: Path) -> Waiting:
        return cls(system, folder, await system.trigger("waiting", {"folder": str(folder)}))

    async def guest(self, attempt: int = 1) -> int:
        """The process of an attempt, once it runs."""
        path = self.folder / f"pid-{attempt}"
        return int(await eventually(lambda: path.exists() and path.read_text(), why=f"{attempt} runs"))

    async def worker(self, attempt: int = 1) -> int:
        """The process of the worker that runs this attempt."""
        await self.guest(attempt)
        worker = (await self.attempts())[attempt - 1]["worker"]
        return next(p["pid"] for p in await self.system.processes("worker", state=None) if p["id"] == worker)

    def release(self, attempt: int) -> None:
        (self.folder / f"go-{attempt}").touch()

    def is_done(self, attempt: int) -> bool:
        """The task's code of that attempt came to its end."""
        return (self.folder / f"done-{attempt}").exists()

    async def attempts(self) -> list[Row]:
        return await self.system.attempts("waiting", self.run_id, "work")

    async def end(self) -> tuple[str, list[Any], Row]:
        """How the run ended, the outcomes of the attempts, the task."""
        run = await self.system.ended("waiting", self.run_id)
        [task] = await self.system.tasks("waiting", self.run_id)
        return run["state"], [a["outcome"] for a in await self.attempts()], task

    async def events(self) -> list[Row]:
        """What the task's outlet got from this run."""
        return [e for e in await self.system.events("made") if e["source"]["run_id"] == self.run_id]

    async def value(self) -> Any:
        """What the task returned, as it is stored."""
        found = await self.system.sql(
            "select x.value::text from xcom x join run r on r.id = x.run_id where r.run_id = $1", self.run_id
        )
        return found[0][0] if found else None


async def test_killed_worker_takes_its_guest_along_and_the_task_runs_again(system: System, tmp_path: Path) -> None:
    """airflow #23520, #58570: the task of a worker that is gone starts once more, as a new attempt."""
    waiting = await Waiting.start(system, tmp_path)
    guest, worker = await waiting.guest(), await waiting.worker()
    system.kill(worker)
    await gone([guest])
    second = await waiting.guest(attempt=2)
    assert second != guest and not waiting.is_done(1)
    waiting.release(2)
    state, outcomes, task = await waiting.end()
    assert (state, outcomes) == ("success", ["lost", "success"])
    assert (task["attempt"], task["failures"], task["losses"]) == (2, 0, 1)
    [event] = await waiting.events()
    assert event["source"]["attempt"] == 2
    assert await waiting.value() == "2"


async def test_report_of_a_frozen_worker_comes_too_late(system: System, tmp_path: Path) -> None:
    """dbos #742, argo-events #1516: who was frozen for longer than its lease changes nothing when it wakes."""
    waiting = await Waiting.start(system, tmp_path)
    guest, worker = await waiting.guest(), await waiting.worker()
    system.freeze(worker)
    waiting.release(1)
    await eventually(lambda: waiting.is_done(1), why="the guest of the frozen worker comes to its end")
    await waiting.guest(attempt=2)
    assert await waiting.worker(2) != worker
    waiting.release(2)
    before = await waiting.end()
    assert before[:2] == ("success", ["lost", "success"])
    system.thaw(worker)
    await gone([worker, guest])
    assert await waiting.end() == before
    [event] = await waiting.events()
    assert event["source"]["attempt"] == 2
    assert await waiting.value() == "2"


async def test_guest_of_a_frozen_worker_is_killed_when_it_wakes(system: System, tmp_path: Path) -> None:
    """The first attempt may not go on beside the second for longer than its worker sleeps."""
    waiting = await Waiting.start(system, tmp_path)
    guest, worker = await waiting.guest(), await waiting.worker()
    system.freeze(worker)
    await waiting.guest(attempt=2)
    assert alive(guest)
    system.thaw(worker)
    await gone([guest])
    waiting.release(2)
    state, outcomes, _ = await waiting.end()
    assert (state, outcomes) == ("success", ["lost", "success"])
    assert not waiting.is_done(1)


async def test_worker_told_to_stop_gives_its_task_back(system: System, tmp_path: Path) -> None:
    waiting = await Waiting.start(system, tmp_path)
    guest, worker = await waiting.guest(), await waiting.worker()
    system.kill(worker, signal.SIGTERM)
    await gone([worker, guest])
    await waiting.guest(attempt=2)
    waiting.release(2)
    state, outcomes, task = await waiting.end()
    assert (state, outcomes) == ("success", ["stopped", "success"])
    assert (task["attempt"], task["failures"], task["losses"]) == (2, 0, 0)


async def test_task_that_loses_three_workers_fails(system: System, tmp_path: Path) -> None:
    """A task that takes its workers down must not do so for ever."""
    waiting = await Waiting.start(system, tmp_path)
    for attempt in (1, 2, 3):
        system.kill(await waiting.worker(attempt))
    state, outcomes, task = await waiting.end()
    assert (state, outcomes) == ("failed", ["lost", "lost", "lost"])
    assert (task["state"], task["failures"], task["losses"]) == ("failed", 0, 3)
    assert await waiting.events() == []


async def test_killed_templates_are_replaced(system: System) -> None:
    """The warm processes that guests are forked from may die at any time."""
    assert (await system.run("quick"))["state"] == "success"
    for worker in await system.processes("worker"):
        for template in children(worker["pid"]):
            if "onceflow.worker.guest" in command_line(template):
                os.kill(template, signal.SIGKILL)
    for _ in range(4):
        run = await system.run("quick")
        assert run["state"] == "success", await system.tasks("quick", run["run_id"])
