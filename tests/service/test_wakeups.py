"""Wake-ups between processes: heard, coalesced, never echoed, and never needed."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager

from onceflow.runtime.wakeups import Wakeups
from onceflow.store.database import Database
from onceflow.store.notify import notify_once
from support import eventually


@asynccontextmanager
async def process(url: str):
    """A process's wake-ups, connected."""
    wakeups, stop = Wakeups(), asyncio.Event()
    event = wakeups.subscribe(["task"])
    bell = wakeups.connect(url, uuid.uuid4(), lease_seconds=5, kind="test")
    running = asyncio.create_task(bell.run(stop))
    await eventually(event.is_set, why="everything is woken once connected")
    event.clear()
    yield wakeups, event
    stop.set()
    await asyncio.wait_for(running, 60)


async def test_a_notification_wakes_the_services_of_other_processes(database_url: str):
    async with process(database_url) as (one, _), process(database_url) as (_, heard):
        one.notify("task")
        await eventually(heard.is_set)


async def test_a_process_does_not_hear_itself(database_url: str):
    async with process(database_url) as (one, own), process(database_url) as (_, other):
        one.notify("task")
        own.clear()
        await eventually(other.is_set)
        assert not own.is_set()


async def test_a_command_wakes_everybody(database_url: str, database: Database):
    async with process(database_url) as (_, one), process(database_url) as (_, two):
        await notify_once(database, "task")
        await eventually(lambda: one.is_set() and two.is_set())


async def test_many_notifications_are_few_messages(database_url: str, database: Database):
    async with process(database_url) as (one, _), process(database_url) as (_, heard):
        for _ in range(1000):
            one.notify("task")
        await eventually(heard.is_set)


async def test_a_lost_connection_is_opened_again_and_everybody_looks(database_url: str, database: Database):
    async with process(database_url) as (_, heard):
        async with database._acquire() as raw:
            await raw.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'test wake-ups'"
            )
        await eventually(heard.is_set, why="it is woken after it connected again")
