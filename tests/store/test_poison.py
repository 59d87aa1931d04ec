"""One bad version harms no other, and everybody gets a turn."""

from __future__ import annotations

from ground import Scheduler, dag, declare, each, record

from onceflow.scheduler.turn import Turn
from onceflow.store.database import Database


async def test_an_unreadable_version_harms_no_other_consumer(database: Database) -> None:
    await declare(database, "a", dag("bad", each("a")), dag("good", each("a")), path="f.py")
    await record(database, "a")
    async with database._acquire() as raw:
        await raw.execute("update dag_version set spec = '{}' where dag_id = 1")
    await Scheduler(database).settle()
    async with database._acquire() as raw:
        found = await raw.fetch("select disposition::text, reason from delivery order by dag_id")
        assert await raw.fetchval("select count(*) from task where state = 'queued'") == 1
    assert [r["disposition"] for r in found] == ["held", "started"]
    assert found[0]["reason"].startswith("error: version 1 cannot be read")


def test_a_full_batch_is_followed_by_what_stands_behind_it() -> None:
    turn = Turn(2)
    assert not turn.over([1, 2])
    assert turn.after == 2
    assert not turn.over([3])
    assert turn.after == 0
    assert turn.over([])


def test_nothing_behind_a_full_batch_begins_again() -> None:
    turn = Turn(2)
    turn.over([1, 2])
    assert not turn.over([])
    assert turn.after == 0
