"""What comes late: reports of an earlier attempt beside those of the present one, and sessions that were given up."""

from __future__ import annotations

import uuid

from ground import SOURCE, Scheduler, change, claim_tasks, dag, declare, each, finish, healthy, report, rows

from onceflow.model.change import Change
from onceflow.model.dagspec import AssetSpec, WatcherSpec
from onceflow.store import events, runs, tasks, watchers
from onceflow.store.database import Database

WORKER = uuid.UUID(int=1)


async def test_a_late_report_in_one_batch_with_that_of_the_next_attempt_is_fenced(database: Database) -> None:
    """airflow #66374, #67287, #71580: of two attempts' reports in one batch the earlier attempt's counts for nothing.

    A worker was out of reach for longer than its lease: its task was queued again, and it took it itself.
    """
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


async def test_a_session_that_comes_late_does_not_move_the_cursor_back(database: Database) -> None:
    """It was cut off, sent again, and is executed after what was sent in its place and after the next batch."""
    await declare(database, AssetSpec("a", watchers=(WatcherSpec("w", "tests:Trigger", {}),)), path="a.py")
    [owned] = await watchers.claim(database, WORKER, 10, take_over=False)
    own = events.Ownership(owned.id, WORKER, owned.term, owned.routes.number)
    first, second = change("a"), change("a")

    async def send(what: Change, batch: int) -> str:
        cursor = f'{{"batch": {batch}}}'
        [answer] = await events.record_if_owner(database, own, [what], SOURCE, cursor=cursor, batch=batch)
        return answer.status

    assert await send(first, 1) == "stored"
    assert await send(second, 2) == "stored"
    assert await send(first, 1) == "repeated"
    assert await rows(database, "select cursor::text from watcher") == [('{"batch": 2}',)]
    await watchers.release(database, WORKER, [(owned.id, owned.term)])
    [again] = await watchers.claim(database, WORKER, 10, take_over=False)
    own = events.Ownership(again.id, WORKER, again.term, again.routes.number)
    assert await send(change("a"), 1) == "stored"
    assert await rows(database, "select cursor::text from watcher") == [('{"batch": 1}',)]
    await healthy(database)
