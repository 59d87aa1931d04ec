"""One bad version harms no other, and everybody gets a turn."""

from __future__ import annotations

from datetime import UTC, datetime

from ground import Scheduler, dag, declare, each, record, rows

from onceflow.model.dagspec import IntervalSchedule
from onceflow.scheduler.create_timed_runs import CreateContinuousRuns, CreateTimedRuns
from onceflow.scheduler.turn import Turn
from onceflow.store.database import Database
from onceflow.store.runs import create_manual
from onceflow.store.versions import Versions


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


async def test_a_timed_dag_without_dates_or_with_bad_ones_harms_no_other(database: Database) -> None:
    """airflow #58942, #63436: dates that are missing, a version that cannot be read, a schedule that is none.

    The others get their slots, and nobody looks again and again at those that have none.
    """
    hourly, past = IntervalSchedule(3600.0), datetime(2026, 1, 1, tzinfo=UTC)
    bad = ("no_slot", "no_anchor", "no_version", "no_schedule", "unreadable")
    await declare(database, *(dag(n, hourly, start_date=past, file="f.py") for n in (*bad, "good")), path="f.py")
    for name, change in {
        "no_slot": "next_slot_at = null, anchor_at = null",
        "no_anchor": "anchor_at = null",
        "no_version": "version_id = null",
    }.items():
        await rows(database, f"update dag set {change} where dag_id = $1", name)
    for name, spec in {
        "unreadable": "'{}'",
        "no_schedule": "jsonb_set(spec::jsonb, '{schedule,seconds}', '\"x\"')",
    }.items():
        await rows(
            database,
            f"update dag_version set spec = ({spec})::json where dag_id = (select id from dag where dag_id = $1)",
            name,
        )
    scheduler = Scheduler(database)
    services = [CreateTimedRuns(scheduler.role, Versions()), CreateContinuousRuns(scheduler.role)]
    assert [await s.run_once() for s in services] == [True, False]
    assert [await s.run_once() for s in services] == [False, False]
    made = await rows(
        database, "select d.dag_id, count(*) from run r join dag d on d.id = r.dag_id group by 1 order by 1"
    )
    assert made == [("good", 1), ("no_anchor", 1)]


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


async def test_a_run_of_an_unreadable_version_keeps_no_other_from_starting(database: Database) -> None:
    """Nor does a scheduler that cannot start it try without a pause."""
    await declare(database, dag("bad"), dag("good"), path="f.py")
    await rows(database, "update dag_version set spec = '{}' where dag_id = (select id from dag where dag_id = 'bad')")
    for name in ("bad", "good"):
        await create_manual(database, name, by={})
    start = Scheduler(database).start
    assert await start.run_once()
    assert not await start.run_once()
    found = await rows(database, "select d.dag_id, r.state::text from run r join dag d on d.id = r.dag_id order by 1")
    assert found == [("bad", "queued"), ("good", "running")]
