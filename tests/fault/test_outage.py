"""PostgreSQL is away for many leases: cut off, or frozen with all its connections open. Then all goes on as before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from onceflow.chaos.proxy import Proxy
from onceflow.model.clock import boot_seconds
from support import eventually
from system import LEASE_SECONDS, System, children, command_line
from watched import MODULE, TRIGGER, append, pipeline

OUTAGE_LEASES = 8
NAMES = ("north", "south", "west")
LINES = 6


class Gateway(Proxy):
    """A proxy that can be shut."""

    shut = False

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.shut:
            writer.transport.abort()
        else:
            super()._accept(reader, writer)


@asynccontextmanager
async def cut_off(folder: Path, database_url: str) -> AsyncIterator[tuple[System, Gateway]]:
    """A system that reaches its database through a gateway."""
    way = folder / "way"
    way.mkdir()
    async with Gateway(database_url, way) as gateway:
        yield System(folder, gateway.url, schedulers=2, triggerers=3), gateway


@pytest.mark.parametrize("how", ["cut off", "frozen"])
async def test_one_owner_each_and_no_backlog_after_an_outage(tmp_path: Path, database_url: str, how: str) -> None:
    """argoproj/argo-events#1747: every lease ran out, everybody comes back at once, and each watcher has one owner.

    The changes have no keys, so a second owner would be seen: it would tell them again.
    """
    if how == "cut off":
        async with cut_off(tmp_path, database_url) as (system, gateway):
            await endure(system, tmp_path, gateway)
    else:
        await endure(System(tmp_path, schedulers=2, triggerers=3), tmp_path, None)


async def endure(system: System, folder: Path, gateway: Gateway | None) -> None:
    async with system:
        system.write(MODULE, TRIGGER)
        for name in NAMES:
            await system.sound(f"{name}.py", pipeline(name, folder / name, keyed=False))
            append(folder / name, "before")
        for name in NAMES:
            await system.finished(name, 1)
        before = {p["id"] for p in await system.processes("triggerer")}
        terms = {w["asset"]: w["term"] for w in await system.watchers()}

        server = [p for p in children(system.parent.pid) if "postgres" in command_line(p).partition(" ")[0]]
        over = boot_seconds() + OUTAGE_LEASES * LEASE_SECONDS
        if gateway is None:
            assert server, "the embedded server runs"
            for pid in server:
                system.freeze(pid)
        else:
            gateway.shut = True
            assert gateway.cut() > 0
        for name in NAMES:
            append(folder / name, *(f"meanwhile {n}" for n in range(LINES)))
        await eventually(lambda: boot_seconds() > over, every=0.1, why="the outage is over")
        if gateway is None:
            system.thaw_all()
        else:
            gateway.shut = False

        for name in NAMES:
            assert len(await system.finished(name, 1 + LINES)) == 1 + LINES
        after = await eventually(lambda: owned(system), every=0.1, why="each watcher has one owner that is ready")
        assert not before & set(after.values()), "they ended when their leases were out by their own clocks"
        for name in NAMES:
            append(folder / name, "after")
        for name in NAMES:
            runs = await system.finished(name, 2 + LINES)
            assert [len(r["events"]) for r in runs] == [1] * (2 + LINES)
            told = [e["extra"]["line"] for e in await system.events(name)]
            assert told == ["before", *(f"meanwhile {n}" for n in range(LINES)), "after"]
        watchers = await system.watchers()
        assert all(w["term"] > terms[w["asset"]] for w in watchers)
        await system.verify()


async def owned(system: System) -> dict[str, str]:
    """The owner of each watcher, all of them ready."""
    ready = {p["id"] for p in await system.processes("triggerer") if p["ready"]}
    watchers = await system.watchers()
    assert len(ready) == system.counts["triggerer"]
    assert all(w["owner"] in ready and w["health"] == "healthy" for w in watchers), watchers
    return {w["asset"]: w["owner"] for w in watchers}
