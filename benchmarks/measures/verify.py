"""How long `verify` takes over a history of a million events, each with a run of its own, on an idle database."""

from __future__ import annotations

import time
from pathlib import Path

import asyncpg

from benchmarks.figures import Figure
from benchmarks.system import Setup
from onceflow.model.change import key_hash
from onceflow.queries.verify import verify
from onceflow.runtime.postgres import EmbeddedPostgres
from onceflow.store.database import Database
from onceflow.store.migrate import migrate

EVENTS = 1_000_000
SHOWN = 6


async def measure(setup: Setup) -> list[Figure]:
    events = setup.count(EVENTS)
    server = EmbeddedPostgres(setup.folder / "verify")
    url = server.start()
    try:
        await migrate(url)
        await _fill(url, events)
        async with await Database.connect(url, kind="bench", lease_seconds=3600, hot=False) as database:
            began = time.monotonic()
            found = await verify(database)
            seconds = time.monotonic() - began
        assert found["ok"] and found["events"] == events, found["violations"][:3]
    finally:
        server.stop()
    slowest = sorted(found["seconds"].items(), key=lambda item: -item[1])[:SHOWN]
    setup.note("slowest checks: " + ", ".join(f"{name} {taken:.2f} s" for name, taken in slowest))
    return [Figure("verify.seconds", seconds, "s", f"{events:,} events")]


async def _fill(url: str, events: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        hashes = [key_hash(str(n)) for n in range(1, events + 1)]
        await connection.execute(_text("verify.sql"), events, hashes, timeout=1200)
        await connection.execute(_text("verify_runs.sql"), events, timeout=1200)
        await connection.execute("vacuum analyze")
    finally:
        await connection.close()


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text()
