"""To live and to work are two things: a process that lives and does not work is not ready, and owns no watchers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ground import declare, role

from onceflow.config import Settings
from onceflow.model.dagspec import AssetSpec, WatcherSpec
from onceflow.queries.processes import health, stream_processes
from onceflow.queries.rows import Row, collect
from onceflow.queries.watchers import stream_watchers
from onceflow.runtime.role import Heartbeat, Role
from onceflow.runtime.service import Background
from onceflow.store import processes, watchers
from onceflow.store.database import Database
from support import eventually


class Duty(Background):
    """Something that works, or does not."""

    name = "duty"
    works = False

    def is_ready(self, patience: float) -> bool:
        return self.works

    async def run(self, stop: asyncio.Event) -> None:
        await stop.wait()


def triggerer(database: Database) -> Role:
    settings = Settings(database_url=database.url, lease_seconds=1.0)
    return replace(role(database, "triggerer"), settings=settings)


async def seen(database: Database, of: Role) -> Row:
    [row] = [p for p in await collect(stream_processes(database)) if p["id"] == str(of.id)]
    return row


async def test_a_triggerer_that_lives_and_does_not_work_loses_its_watchers(database: Database) -> None:
    """airflow #65945, #32091: it heartbeats but does nothing. Others take over; what it does know stays fenced."""
    watched = WatcherSpec("w", "t.T", {}, where="a.py:1", silent_after=60.0)
    await declare(database, AssetSpec("a", watchers=(watched,)), path="a.py")
    lazy, other, duty = triggerer(database), triggerer(database), Duty()
    await processes.register(database, lazy.id, "triggerer", 1.0)
    await processes.register(database, other.id, "triggerer", 1.0)
    await processes.renew(database, other.id, 600.0, ready=True)
    async with asyncio.TaskGroup() as group:
        group.create_task(Heartbeat(lazy, [duty]).run(lazy.stop))
        await eventually(lambda: _renewed(database, lazy), why="it lives")
        assert (await seen(database, lazy))["ready"] is False and not lazy.is_ready

        duty.works = True
        await eventually(lambda: lazy.is_ready, why="it works, and the database knows")
        row = await seen(database, lazy)
        assert (row["state"], row["ready"]) == ("running", True)
        assert (await health(database))["triggerer"]["ready"] == 2
        [owned] = await watchers.claim(database, lazy.id, 1, take_over=False)
        assert await watchers.claim(database, other.id, 1, take_over=True) == []

        duty.works = False
        await eventually(lambda: not lazy.is_ready, why="it has not worked for a lease")
        taken = await eventually(
            lambda: watchers.claim(database, other.id, 1, take_over=True), why="another takes its watcher over"
        )
        row = await seen(database, lazy)
        assert (row["state"], row["ready"]) == ("running", False), "it lives on"
        assert [(w.id, w.term) for w in taken] == [(owned.id, owned.term + 1)]
        [shown] = await collect(stream_watchers(database))
        assert shown["owner"] == str(other.id)
        lazy.stop.set()


async def _renewed(database: Database, of: Role) -> bool:
    row = await seen(database, of)
    return row["last_seen"] > row["started_at"] and row["state"] == "running"
