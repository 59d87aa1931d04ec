"""Every boundary of every transaction, in a table: killed there, frozen past the lease and resumed, cut off there.

Afterwards each change has its one run, and `verify` finds nothing. The points are armed a few at a time in one running
system, one of each role, while changes come in by every entrance.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import Mapping
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path

import httpx
import pytest

from onceflow.model.clock import boot_seconds
from onceflow.model.times import from_rfc3339
from support import SOURCE, eventually
from system import LEASE_SECONDS, System
from watched import MODULE, TRIGGER, append, pipeline

POINTS: Mapping[str, str] = {
    "api-server.emit.before": "nothing is stored; the client sends again",
    "api-server.emit.after_commit": "stored, the client does not know; sent again it is the same change",
    "api-server.trigger.before": "nothing is stored; the client sends again",
    "api-server.trigger.after_commit": "the run is there, the client does not know; sent again it is the same run",
    "api-server.answer.before": "done, and the answer is not kept; sent again it is done no second time",
    "api-server.answer.after_commit": "the answer is kept; sent again it is given again",
    "api-server.pause.after_commit": "paused or resumed, nobody was told; polls find it",
    "dag-processor.register.before": "the file is as it was; the next scan registers it",
    "dag-processor.register.after_commit": "registered, nobody was told; polls find it",
    "scheduler.consume.locked": "consumers are locked and read; others go on when the locks are gone",
    "scheduler.consume.judged": "runs are written, uncommitted; gone, and made by another scheduler",
    "scheduler.consume.before_commit": "runs are started, uncommitted; gone, and made by another scheduler",
    "scheduler.consume.after_commit": "runs are there and started, workers were not told; they look themselves",
    "scheduler.start.before_commit": "tasks are written, uncommitted; gone, and started by another scheduler",
    "scheduler.start.after_commit": "started, workers were not told; they look themselves",
    "scheduler.advance.locked": "runs are locked and read; others go on when the locks are gone",
    "scheduler.advance.before_commit": "tasks and ends of runs are uncommitted; gone, and drawn by another scheduler",
    "scheduler.advance.after_commit": "drawn, nobody was told; polls find it",
    "scheduler.timed.before_commit": "slots are written, uncommitted; gone, and written by another scheduler",
    "scheduler.timed.after_commit": "slots are there; another scheduler starts them",
    "scheduler.continuous.before_commit": "the next run is uncommitted; gone, and made by another scheduler",
    "scheduler.continuous.after_commit": "the next run is there, workers were not told; they look themselves",
    "scheduler.history.after_commit": "a part of the history is delivered; another scheduler goes on with the rest",
    "scheduler.rescue.buried": "a dead process's watchers are free, its tasks' leases over; another goes on",
    "scheduler.rescue.after_commit": "tasks are queued again, workers were not told; they look themselves",
    "triggerer.claim.before": "nothing is owned; another triggerer claims",
    "triggerer.claim.after_commit": "owned, but nobody watches; taken over when the lease is out",
    "triggerer.deliver.before": "told by the trigger, not stored; the next owner is told again",
    "triggerer.deliver.after_commit": "stored with the cursor, the trigger was not told; the next owner goes on",
    "triggerer.compare.after_read": "it knows what it owns; the next owner waits for the lease",
    "triggerer.release.before": "stopped, but owned; taken over when the lease is out",
    "triggerer.release.after_commit": "released, nobody was told; another triggerer looks itself",
    "worker.claim.after_commit": "attempts are opened, no guest runs; lost, and tried again",
    "worker.claim.launched": "guests run; they die with the worker, and are tried again",
    "worker.finish.before": "ended, not stored; lost, and tried again",
    "worker.finish.after_commit": "stored, the worker does not know; what it sends again is answered again",
    "worker.renew.after_commit": "renewed; rescued when the lease is out",
}
"""Each point, and what is known when a process ends there."""

DEEDS = ("kill", "freeze", "cut")
LEFT_OUT = (("freeze", 0), ("cut", 1))
AT_ONCE = {"scheduler": 2}
FROZEN_LEASES = 2.0
READY = re.compile(r"^ready (\S+)$", re.MULTILINE)

DAGS = """
    import time
    from datetime import timedelta

    from onceflow import DAG, Asset, task

    with DAG("posted", schedule=Asset("posts"), max_active_runs=100):
        @task(outlets=[Asset("made")])
        def work(): ...
        work()

    with DAG("follows", schedule=Asset("made"), max_active_runs=100):
        pass

    with DAG("by_hand", max_active_runs=100):
        @task
        def work():
            time.sleep(0.5)
        work()

    with DAG("ticks", schedule=timedelta(seconds=1), catchup=True, max_active_runs=100):
        pass

    with DAG("always", schedule="@continuous", max_active_runs=1):
        @task
        def work():
            time.sleep(0.5)
        work()
"""

LATE = """
    from onceflow import DAG, Asset

    with DAG("late_{number}", schedule=Asset("posts"), catchup=True, max_active_runs=100):
        pass
"""


def trials() -> list[tuple[str, int]]:
    """Deeds, each with a half of the rounds, as a system starts those that die often later and later.

    All of them with CRASH_POINTS=all, as `make chaos` has it; else of the deeds that do not kill only one half.
    """
    both = [(deed, half) for deed in DEEDS for half in (0, 1)]
    return both if os.environ.get("CRASH_POINTS") == "all" else [t for t in both if t not in LEFT_OUT]


def rounds() -> list[list[str]]:
    """Points to arm at once: one of each role, of schedulers two."""
    columns = []
    for role in dict.fromkeys(p.partition(".")[0] for p in POINTS):
        of_role = [p for p in POINTS if p.startswith(role + ".")]
        count = AT_ONCE.get(role, 1)
        columns += [of_role[n::count] for n in range(count)]
    return [[p for p in points if p] for points in zip_longest(*columns)]


def test_every_point_is_in_the_table() -> None:
    """A point nobody tests fails the build, and so does a row for a point that is gone."""
    sources = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    named = re.findall(r'crash_point\("([^"]+)"\)', sources)
    assert sorted(named) == sorted(POINTS)
    assert sources.count("crash_point(") == len(named) + 1, "a point's name is written out where it is"


class Trial:
    """A system whose processes listen to crash points, and what it was told so far."""

    def __init__(self, system: System, folder: Path, client: httpx.AsyncClient) -> None:
        self.system = system
        self.folder = folder
        self.client = client
        self.lines = folder / "lines"
        self.told = 0

    async def endure(self, points: list[str], deed: str) -> None:
        """Arm the points, make changes, wait until each point was struck and each change has its run."""
        number = self.told = self.told + 1
        for point in points:
            (self.folder / point).write_text(deed)
        async with asyncio.TaskGroup() as group:
            for point in points:
                group.create_task(self.befall(point, deed))
            group.create_task(self.change(number, lose="scheduler.rescue.after_commit" in points))
        for dag_id in ("fed", "posted", "follows", "by_hand", f"late_{number}"):
            await self.system.finished(dag_id, number)
            assert await self.system.count_runs(dag_id) == {"success": number}

    async def change(self, number: int, *, lose: bool) -> None:
        """A change by every entrance: files and code, a watcher's source, a run by hand, an event."""
        self.system.write("fed.py", pipeline("fed", self.lines) + f"\n    # edited: {number}\n")
        self.system.write(MODULE, TRIGGER.replace("Each line", f"Edited: {number}. Each line"))
        append(self.lines, str(number))
        await self.post("/api/v2/dags/by_hand/dagRuns", {}, f"run {number}")
        await self.post("/api/v2/assets/events", {"name": "posts", "key": str(number)}, f"event {number}")
        self.system.write(f"late_{number}.py", LATE.format(number=number))
        await self.resume("by_hand")
        if lose:
            await self.lose_a_task()

    async def befall(self, point: str, deed: str) -> None:
        """Wait until the point was struck; who was frozen goes on after its lease."""
        pid = await eventually(lambda: self.struck(point), every=0.05, why=f"{point} is struck")
        if deed == "freeze" and pid is not None:
            thaw_at = boot_seconds() + FROZEN_LEASES * LEASE_SECONDS
            await eventually(lambda: boot_seconds() > thaw_at, every=0.05, why="the lease is out")
            os.kill(pid, signal.SIGCONT)

    def struck(self, point: str) -> int | None:
        """The process that got there, or None."""
        found = [int(p.suffix[1:]) for p in self.folder.glob(f"{point}.struck.*")]
        if found:
            (self.folder / f"{point}.struck.{found[0]}").unlink()
        return found[0] if found else None

    async def post(self, path: str, body: dict[str, object], key: str) -> None:
        """Make something, once."""
        await self.ask("POST", path, body, {"Idempotency-Key": key})

    async def resume(self, dag_id: str) -> None:
        """Pause a DAG and let it run again."""
        for paused in (True, False):
            await self.ask("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": paused}, {})

    async def ask(self, method: str, path: str, body: dict[str, object], headers: dict[str, str]) -> None:
        """A request, sent again until it is answered."""

        async def answered() -> bool:
            try:
                answer = await self.client.request(method, path, json=body, headers=headers)
            except httpx.HTTPError as error:
                raise AssertionError(repr(error)) from error
            assert answer.status_code == 200, answer.text
            return True

        await eventually(answered, every=0.1, why=f"{path} answers")

    async def lose_a_task(self) -> None:
        """Kill the worker of an attempt under way."""

        async def lost() -> bool:
            rows = await self.system.sql(
                "select p.pid, t.id from task t join process p on p.id = t.owner where t.state = 'running' limit 1"
            )
            for pid, task in rows:
                try:
                    os.kill(pid, signal.SIGSTOP)  # so that it does not finish the task meanwhile
                    runs = await self.system.sql("select 1 from task where id = $1 and state = 'running'", task)
                    os.kill(pid, signal.SIGKILL if runs else signal.SIGCONT)
                except ProcessLookupError:
                    return True  # another deed was quicker
                return bool(runs)
            return False

        await eventually(lost, why="the worker of a running task is killed")


@pytest.mark.parametrize(("deed", "half"), trials())
async def test_a_process_that_ends_anywhere_neither_loses_nor_doubles(
    tmp_path: Path, database_url: str, deed: str, half: int
) -> None:
    """apache/airflow#54491, argo-events#850, dbos#733, hatchet#4129, flyte#6577: at each labelled point."""
    points = tmp_path / "points"
    points.mkdir()
    shutil.copy(Path(__file__).with_name("deeds.py"), points)
    system = System(
        tmp_path, database_url, schedulers=3, triggerers=2, workers=2, crash_points=points / "deeds.py", scan_seconds=1
    )
    async with system:
        system.write(MODULE, TRIGGER)
        await system.sound("given.py", DAGS)
        said = await eventually(lambda: READY.search(system.output.read_text()), why="the API server serves")
        headers = {"Authorization": f"Bearer {(system.home / 'token').read_text().strip()}"}
        async with httpx.AsyncClient(base_url=said[1], headers=headers, timeout=2) as client:
            trial = Trial(system, points, client)
            for together in rounds()[half::2]:
                await trial.endure(together, deed)
        ticks = await system.runs("ticks")
        slots = [from_rfc3339(r["logical_date"], "slot") for r in ticks]
        assert slots == [slots[0] + timedelta(seconds=n) for n in range(len(slots))]
        await system.verify()
