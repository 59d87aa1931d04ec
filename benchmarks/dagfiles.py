"""The DAG files that are measured."""

from __future__ import annotations

from pathlib import Path

ASSET = "changes"
STAMPS = "stamps.txt"

HEAD = """\
import os
import time

from onceflow import DAG, Asset, task


def stamp(mark):
    file = os.open({stamps!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{{time.time()}} {{mark}}\\n".encode())
    os.close(file)


@task
def work(run_id=None):
    stamp(run_id)

"""

CONSUMER = """
with DAG({dag_id!r}, schedule=Asset({asset!r}){options}):
    work()
"""

OUTLET = """
@task(outlets=[Asset("made")])
def make():
    pass


with DAG("producer", schedule=Asset("changes")):
    make()
"""

CHAIN = """
with DAG("chained", schedule=Asset("changes")):
    before = None
    for i in range({tasks}):
        step = work.override(task_id=f"step_{{i}}")()
        if before is not None:
            before >> step
        before = step
"""

PARALLEL = """
with DAG("parallel", schedule=Asset("changes"), max_active_tasks={tasks}):
    for i in range({tasks}):
        work.override(task_id=f"part_{{i}}")()
"""

POLLING = """
import asyncio

from onceflow import AssetAny, AssetWatcher, BaseEventTrigger, TriggerEvent
from onceflow.sources.poll import PollTrigger


class Modified(BaseEventTrigger):
    def __init__(self, path):
        self.path = path

    def serialize(self):
        return "watchers.Modified", {{"path": self.path}}

    async def run(self):
        before = self.cursor
        while True:
            now = os.stat(self.path).st_mtime_ns
            if now != before:
                yield TriggerEvent({{"at": now}}, key=str(now), cursor=now)
                before = now
            self.observed()
            await asyncio.sleep({interval})


class Polled(PollTrigger):
    interval = {interval}

    async def poll(self, cursor):
        now = os.stat(self.arguments["path"]).st_mtime_ns
        return ([TriggerEvent({{"at": now}}, key=str(now))] if now != cursor else []), now


assets = [
    Asset(f"file_{{n}}", watchers=[AssetWatcher("poll", {trigger}(path=f"{folder}/{{n}}"))]) for n in range({assets})
]
with DAG("consumer", schedule=AssetAny(*assets), max_active_runs=64):
    work()
"""

QUIET = """
from onceflow import Asset, AssetWatcher
from onceflow.sources.poll import PollTrigger  # of a dag file


class Quiet(PollTrigger):
    interval = 60

    async def poll(self, cursor):
        return [], cursor


assets = [Asset(f"source_{{n}}", watchers=[AssetWatcher("poll", Quiet(number=n))]) for n in range({watchers})]
"""

READING = """
from onceflow import AssetWatcher, TriggerEvent
from onceflow.sources.poll import PollTrigger


class Lines(PollTrigger):
    interval = {interval}

    async def poll(self, cursor):
        stamp(f"poll {{os.getpid()}}")
        with open({source!r}) as file:
            file.seek(cursor or 0)
            lines = file.readlines()
            return [TriggerEvent({{"line": int(line)}}) for line in lines], file.tell()


with DAG("consumer", schedule=Asset("lines", watchers=[AssetWatcher("read", Lines())]), max_active_runs=64):
    work()
"""


def head(home: Path) -> str:
    """What every file begins with."""
    return HEAD.format(stamps=str(home / STAMPS))


def consumer(home: Path, dag_id: str = "consumer", asset: str = ASSET, options: str = "") -> str:
    """A DAG of one trivial task, one run for each event of the asset; `options` as in ", max_active_runs=64"."""
    return head(home) + CONSUMER.format(dag_id=dag_id, asset=asset, options=options)


def stamps(home: Path) -> dict[str, float]:
    """When user code started, by the mark it left (the first, if it left several)."""
    found: dict[str, float] = {}
    path = home / STAMPS
    for line in path.read_text().splitlines() if path.exists() else ():
        at, _, mark = line.partition(" ")
        found.setdefault(mark, float(at))
    return found


def outlet(home: Path) -> str:
    """A producer with an outlet, started by an event, and the consumer of what it makes."""
    return head(home) + OUTLET + CONSUMER.format(dag_id="consumer", asset="made", options="")


def consumers(home: Path, number: int) -> str:
    """So many DAGs that all consume the one asset."""
    return head(home) + (
        f"for number in range({number}):\n"
        f'    with DAG(f"consumer_{{number}}", schedule=Asset({ASSET!r})):\n'
        "        work()\n"
    )


def polling(home: Path, assets: int, interval: float, trigger: str = "Modified") -> str:
    """So many assets, each with a watcher that looks at the time of a file of its own; one DAG consumes them all.

    `trigger`: "Modified" has a loop of its own, "Polled" uses the helper for triggers that poll. The file has to be
    called watchers.py.
    """
    return head(home) + POLLING.format(folder=str(home / "watched"), assets=assets, interval=interval, trigger=trigger)


def quiet(watchers: int) -> str:
    """So many assets, each with a polling watcher that never finds anything; the file has to be called quiet.py."""
    return QUIET.format(watchers=watchers)


def reading(home: Path, source: Path, interval: float) -> str:
    """A watcher that reads the lines of a file behind its cursor and has no other identity for them."""
    return head(home) + READING.format(source=str(source), interval=interval)
