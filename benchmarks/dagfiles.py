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
