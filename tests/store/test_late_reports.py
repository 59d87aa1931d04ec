"""What comes late: reports of an earlier attempt beside those of the present one, and sessions that were given up."""

from __future__ import annotations

import uuid
from typing import Any

from ground import Scheduler, change, claim_tasks, dag, declare, each, finish, healthy, report

from onceflow.store import runs, tasks
from onceflow.store.database import Database

WORKER = uuid.UUID(int=1)


async def rows(database: Database, text: str) -> list[tuple[Any, ...]]:
    async with database._acquire() as raw:
        return [tuple(r) for r in await raw.fetch(text)]


async def test_a_late_report_in_one_batch_with_that_of_the_next_attempt_is_fenced(database: Database) -> None:
    """A worker was out of reach for longer than its lease: its task was queued again, and it took it itself."""
    await declare(database, "out", dag("d", None, "t"), dag("consumer", each("out")), path="d.py")
    await runs.create_manual(database, "d", by={})
    await Scheduler(database).settle()
    old = (await claim_tasks(database, WORKER))["t"]
    await rows(database, "update task set lease_until = '-infinity'")
    assert await tasks.rescue(database, take_over=False) == 1
    new = (await claim_tasks(database, WORKER))["t"]
    known = dict(await rows(database, "select name, id from asset"))
    late = report(old, changes=[change("out", "of the old")], value='"old"')
    present = report(new, changes=[change("out", "of the new")], value='"new"')
    assert await finish(database, WORKER, late, present, assets=known) == ["fenced", "finished"]
    assert await rows(database, "select number, outcome::text from attempt order by 1") == [(1, "lost"), (2, "success")]
    assert await rows(database, "select key from event") == [("of the new",)]
    assert await rows(database, "select value::text, attempt from xcom") == [('"new"', 2)]
    await healthy(database)
