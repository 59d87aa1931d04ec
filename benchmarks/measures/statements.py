"""How many statements each process sends to the database for a spaced event, a chained task, a run of a burst.

These are counts, so they hardly depend on the machine or on what else it does. They come from the server's own log.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from pathlib import Path

from benchmarks.dagfiles import ASSET, CHAIN, consumer, head
from benchmarks.emitter import Emitter
from benchmarks.figures import Figure
from benchmarks.system import Setup, System, emitting

SETTINGS = "\nlog_min_duration_statement = 0\nlog_line_prefix = '%a|'\n"
LINE = re.compile(r"^([^|]+)\|LOG:  duration: ([\d.]+) ms  (?:execute [^:]+|statement): (.*)$", re.MULTILINE)
NOT_PER_UNIT = ("update process", "-- What there is to do, looked at")
WARM_UP = 3
MOST = 8


async def measure(setup: Setup) -> list[Figure]:
    figures = []
    for schedulers in setup.schedulers:
        figures += await _consumer(setup, schedulers)
        figures += await _chain(setup, schedulers)
    return figures


async def _consumer(setup: Setup, schedulers: int) -> list[Figure]:
    home, spaced, burst = setup.folder / f"statements{schedulers}", setup.count(20, 5), setup.count(500, 100)
    async with emitting(home, {"consumer.py": consumer(home)}, schedulers=schedulers) as (system, emitter):
        await _warm_up(system, emitter, "consumer")
        log = await _log(system)
        for _ in range(spaced):
            await emitter.emit(ASSET)
            await asyncio.sleep(0.3)
        await system.wait_for_runs("consumer", WARM_UP + spaced)
        figures = _figures(setup, log, "spaced event", spaced, schedulers)
        await emitter.emit(ASSET, burst)
        await system.wait_for_runs("consumer", WARM_UP + spaced + burst, every=0.1)
        return figures + _figures(setup, log, "run of a burst", burst, schedulers)


async def _chain(setup: Setup, schedulers: int) -> list[Figure]:
    home, tasks = setup.folder / f"chain_statements{schedulers}", setup.count(100, 10)
    files = {"chained.py": head(home) + CHAIN.format(tasks=tasks)}
    async with emitting(home, files, schedulers=schedulers) as (system, emitter):
        await _warm_up(system, emitter, "chained")
        log = await _log(system)
        await emitter.emit(ASSET)
        await system.wait_for_runs("chained", WARM_UP + 1)
        return _figures(setup, log, "chained task", tasks, schedulers)


async def _warm_up(system: System, emitter: Emitter, dag_id: str) -> None:
    await system.wait_for_dags(dag_id)
    for done in range(1, WARM_UP + 1):
        await emitter.emit(ASSET)
        await system.wait_for_runs(dag_id, done)


class Log:
    """The server's log, read on from where it was read last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = path.stat().st_size

    def new(self) -> str:
        with self._path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        self._read += len(text)
        return text.decode(errors="replace")


async def _log(system: System) -> Log:
    """Let the server log every statement."""
    settings = next(system.home.rglob("postgresql.auto.conf"))
    settings.write_text(settings.read_text() + SETTINGS)
    postmaster = int((settings.parent / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGHUP)
    await asyncio.sleep(0.5)  # until every connection has taken notice
    return Log(next(system.home.rglob("postgres.log")))


def _figures(setup: Setup, log: Log, unit: str, number: int, schedulers: int) -> list[Figure]:
    """Count what was logged since the last time."""
    by_process: Counter[str] = Counter()
    by_statement: Counter[tuple[str, str]] = Counter()
    for process, _duration, text in LINE.findall(log.new()):
        if not process.startswith("bench") and not text.startswith(NOT_PER_UNIT) and process != "[unknown]":
            by_process[process.removesuffix(" wake-ups")] += 1
            by_statement[process, text[:60]] += 1
    most = [f"  {n / number:6.2f} {process:20} {text}" for (process, text), n in by_statement.most_common(MOST)]
    variant = f"{schedulers} scheduler{'s' * (schedulers > 1)}"
    setup.note("\n".join([f"statements per {unit}, {variant}, the most frequent:", *most]))
    return [
        Figure(f"statements.{unit}, {process}", by_process[process] / number, "", variant)
        for process in ("scheduler", "worker")
    ]
