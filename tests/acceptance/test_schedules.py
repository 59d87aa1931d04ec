"""Runs that time starts, and those that people start, with two schedulers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from onceflow.model.times import from_rfc3339
from onceflow.queries.rows import Row
from onceflow.runtime.postgres import EmbeddedPostgres
from support import eventually
from system import System, shared

TIMED = """
    from datetime import datetime, timedelta

    from onceflow import DAG, task

    with DAG("every_second", schedule="* * * * * *"):
        pass

    with DAG("steps", schedule=timedelta(seconds=0.5)):
        pass

    with DAG("one_time", schedule="@once"):
        @task
        def work(logical_date):
            return logical_date.isoformat()
        work()

    with DAG("caught_up", schedule="0 0 * * *", start_date=datetime({start}), catchup=True, max_active_runs=3):
        pass

    with DAG("not_caught_up", schedule="0 0 * * *", start_date=datetime({start}), catchup=False):
        pass

    with DAG("ended", schedule="@daily", start_date=datetime(2020, 1, 1), end_date=datetime(2020, 1, 5), catchup=True):
        pass
"""
PEOPLE = """
    from onceflow import DAG, Asset, Param, task

    with DAG("asked", params={"rows": Param(10, type="integer", minimum=1), "name": "x"}):
        @task
        def work(params, dag_run, run_id, logical_date):
            return [params["rows"], params["name"], dag_run.conf.get("other"), dag_run.run_type, logical_date]
        work()

    with DAG("paused", schedule=Asset("paused_input")):
        pass
"""
DAYS = 7


@pytest.fixture(scope="module")
def system(
    module_database: str, pg_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    with shared(System(tmp_path_factory.mktemp("timed"), module_database, schedulers=2)) as system:
        yield system


async def slots(system: System, dag_id: str) -> list[datetime]:
    return [from_rfc3339(r["logical_date"]) for r in await system.runs(dag_id)]


async def test_each_slot_has_one_run(system: System) -> None:
    """prefect #18523, #10677, kestra #18422, flyte #2106: cron, intervals, once, with catch-up and without."""
    [now] = await system.sql("select clock_timestamp()")
    midnight = now[0].replace(hour=0, minute=0, second=0, microsecond=0)
    start = midnight - timedelta(days=DAYS - 1)
    await system.sound("timed.py", TIMED.format(start=f"{start.year}, {start.month}, {start.day}"))
    for dag_id, count in (("every_second", 5), ("steps", 10), ("one_time", 1), ("caught_up", DAYS), ("ended", 5)):
        await eventually(partial(reached, system, dag_id, count), every=0.2, why=f"{count} runs of {dag_id}")

    seconds = await slots(system, "every_second")
    assert len(set(seconds)) == len(seconds) and all(s.microsecond == 0 for s in seconds)
    steps = await slots(system, "steps")
    assert len(set(steps)) == len(steps)
    assert all((after - steps[0]) % timedelta(seconds=0.5) == timedelta(0) for after in steps)
    assert all(before < after for before, after in pairwise(steps))
    for run in await system.runs("every_second"):
        assert run["run_type"] == "scheduled" and run["run_id"].startswith("scheduled__")
        assert run["logical_date"] <= run["created_at"]
    assert len(await slots(system, "one_time")) == 1
    days = [midnight - timedelta(days=n) for n in reversed(range(DAYS))]
    assert await slots(system, "caught_up") == days
    assert await slots(system, "not_caught_up") == days[-1:]
    assert await slots(system, "ended") == [datetime(2020, 1, day, tzinfo=midnight.tzinfo) for day in range(1, 6)]


async def reached(system: System, dag_id: str, count: int) -> bool:
    counts = await system.count_runs(dag_id)
    assert counts.get("success", 0) >= count, counts
    return True


async def test_a_restart_makes_no_run_outside_its_slot(system: System) -> None:
    """flyte #4285, river #791: schedulers that come and go keep the slots."""
    await test_each_slot_has_one_run(system)
    before = len(await slots(system, "every_second"))
    for scheduler in await system.processes("scheduler"):
        system.kill(scheduler["pid"])
    await eventually(lambda: reached(system, "every_second", before + 3), every=0.2)
    seconds = await slots(system, "every_second")
    assert len(set(seconds)) == len(seconds) and all(s.microsecond == 0 for s in seconds)
    assert len(await slots(system, "one_time")) == 1
    assert len(await slots(system, "caught_up")) == DAYS


async def test_paused_schedule_starts_nothing(system: System) -> None:
    """airflow #73151: while paused no run is made, and unpausing makes no burst."""
    await system.sound("paused_timer.py", PAUSED_TIMER)
    await eventually(lambda: reached(system, "paused_timer", 2), every=0.1)
    await system.pause("paused_timer")
    await system.finished("paused_timer", 2)
    before = await slots(system, "paused_timer")
    await eventually(lambda: reached(system, "beside", 12), every=0.1, why="time goes on")
    assert await slots(system, "paused_timer") == before
    await system.unpause("paused_timer")
    await eventually(lambda: reached(system, "paused_timer", len(before) + 2), every=0.1)
    after = await slots(system, "paused_timer")
    skipped = (after[len(before)] - before[-1]) / timedelta(seconds=0.25)
    assert skipped > 4
    await system.pause("paused_timer")
    await system.pause("beside")


async def test_time_and_events_are_switched_separately(system: System) -> None:
    """airflow#62929: who stops what the clock starts, stops no consumer; and the other way round.

    A DAG has one schedule, and is switched by itself: also one whose runs make the events of the other.
    """
    await system.sound("switches.py", SWITCHES)
    await eventually(lambda: reached(system, "by_clock", 2), every=0.1)
    await eventually(lambda: reached(system, "by_event", 2), every=0.1, why="events of timed runs are consumed")

    await system.pause("by_clock")
    timed = len(await system.finished("by_clock", 2))
    consumed = len(await system.finished("by_event", timed))
    await system.emit("switched", "by hand", "and again")
    assert len(await system.finished("by_event", consumed + 2)) == consumed + 2
    assert len(await system.runs("by_clock")) == timed, "the clock is off"

    await system.pause("by_event")
    await system.unpause("by_clock")
    await eventually(lambda: reached(system, "by_clock", timed + 3), every=0.1, why="the clock goes on")
    await system.pause("by_clock")
    timed = len(await system.finished("by_clock", timed + 3))
    assert len(await system.runs("by_event")) == consumed + 2, "events are off"
    shown = await system.dag("by_event")
    assert (shown["held"], shown["paused"]) == (timed - consumed, True), "and wait"
    await system.unpause("by_event")
    assert len(await system.finished("by_event", timed + 2)) == timed + 2


SWITCHES = """
    from datetime import timedelta

    from onceflow import DAG, Asset, task

    switched = Asset("switched")

    with DAG("by_clock", schedule=timedelta(seconds=0.25), max_active_runs=1):
        @task(outlets=[switched])
        def work(): ...
        work()

    with DAG("by_event", schedule=switched, max_active_runs=16):
        pass
"""
PAUSED_TIMER = """
    from datetime import timedelta

    from onceflow import DAG

    with DAG("paused_timer", schedule=timedelta(seconds=0.25)):
        pass

    with DAG("beside", schedule=timedelta(seconds=0.25)):
        pass
"""


async def test_people_start_runs_with_conf_and_params(system: System) -> None:
    await system.sound("people.py", PEOPLE)
    made = await system.json("dags", "trigger", "asked", "--conf", '{"rows": 3, "other": [1, null]}')
    run = await system.ended("asked", made["run_id"])
    assert (run["state"], run["run_type"], run["conf"]) == ("success", "manual", {"rows": 3, "other": [1, None]})
    assert run["run_id"].startswith("manual__") and run["logical_date"] is None
    assert await value(system, run) == [3, "x", [1, None], "manual", None]
    dated = await system.json("dags", "trigger", "asked", "--logical-date", "2026-01-02T03:04:05+01:00")
    run = await system.ended("asked", dated["run_id"])
    assert run["logical_date"] == "2026-01-02T02:04:05.000000Z"
    again = await system.cli("dags", "trigger", "asked", "--logical-date", "2026-01-02T02:04:05Z")
    assert again.returncode == 1 and "logical date" in again.stderr
    refused = await system.cli("dags", "trigger", "asked", "--conf", '{"rows": 0}')
    assert refused.returncode == 2 and "rows" in refused.stderr


async def value(system: System, run: Row) -> Any:
    [[text]] = await system.sql("select value::text from xcom where run_id = $1", run["id"])
    return json.loads(text)


async def test_pause_holds_and_unpause_fires_once(system: System) -> None:
    """airflow #49857: events during a pause are held, shown, and each starts its run after it, once."""
    await system.sound("people.py", PEOPLE)
    assert (await system.cli("dags", "pause", "paused")).returncode == 0
    held = await system.emit("paused_input", "a", "b", "c")
    run_id = await system.trigger("paused")

    async def shown() -> bool:
        events = await system.json("events", "list", "--asset", "paused_input")
        found = [(d["disposition"], d["reason"]) for e in events for d in e["deliveries"]]
        assert found == [("held", "pause")] * 3, found
        return True

    await eventually(shown, every=0.1, why="the events are held")
    assert await system.count_runs("paused") == {"queued": 1}
    told = await system.cli("dags", "unpause", "paused")
    assert "3 events are pending again" in told.stdout
    assert (await system.cli("dags", "unpause", "paused")).returncode == 0
    runs = await system.finished("paused", 4)
    assert [r["events"] for r in runs] == [[], *[[h.event_id] for h in held]]
    assert runs[0]["run_id"] == run_id
