"""What `import onceflow` costs somebody who writes DAGs, and how soon the command answers."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time

from benchmarks.figures import Figure
from benchmarks.system import Setup

REPEATS = 11
TIMED = "import time; before = time.perf_counter(); {}; print(time.perf_counter() - before)"
STATEMENTS = {
    "import onceflow": "import onceflow",
    "names of a DAG file": "from onceflow import DAG, Asset, AssetWatcher, task",
}


async def measure(setup: Setup) -> list[Figure]:
    repeats = setup.count(REPEATS, 3)
    figures = []
    for what, statement in STATEMENTS.items():
        figures.append(Figure(f"imports.{what}", await asyncio.to_thread(_import, statement, repeats), "ms"))
    return [*figures, Figure("imports.onceflow --help", await asyncio.to_thread(_help, repeats), "ms")]


def _import(statement: str, repeats: int) -> float:
    """Median time of the statement in fresh interpreters; the first one, which may compile, is not counted."""
    command = [sys.executable, "-c", TIMED.format(statement)]
    times = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(repeats + 1)]
    return statistics.median(times[1:]) * 1000


def _help(repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):
        before = time.perf_counter()
        subprocess.run([sys.executable, "-m", "onceflow.cli.main", "--help"], capture_output=True, check=True)
        times.append(time.perf_counter() - before)
    return statistics.median(times[1:]) * 1000
