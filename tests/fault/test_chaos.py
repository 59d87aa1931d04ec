"""Processes that are killed or frozen at random, seeded moments, many of them inside a transaction."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from chaos import Chaos, at_least, count

from support import eventually
from system import System
from watched import MODULE, TRIGGER, append, pipeline

SEED = 20261
LINES = 150
PRODUCED = 150
LOST = 5

CONSUMER = """
    from onceflow import DAG, Asset

    with DAG("report", schedule=Asset("orders"), max_active_runs=100):
        pass
"""

PRODUCERS = """
    import time

    from onceflow import DAG, Asset, task

    made = Asset("made")

    with DAG("produce", schedule=Asset("orders"), max_active_runs=100):
        @task(outlets=[made])
        def work(triggering_asset_events, outlet_events):
            [[event]] = triggering_asset_events.values()
            time.sleep(0.3)
            outlet_events[made].extra["of"] = event.key
        work()

    with DAG("consume", schedule=made, max_active_runs=100):
        pass
"""


async def test_schedulers_frozen_inside_transactions_hold_nobody_up(tmp_path: Path, database_url: str) -> None:
    """argo-events #1516, hatchet #4129: a frozen scheduler's locks are freed, and when it wakes it changes nothing."""
    async with System(tmp_path, database_url, schedulers=3, workers=0) as system:
        await system.sound("report.py", CONSUMER)
        told = 0
        made = partial(count, system, "run")
        async with Chaos(system, "scheduler", made, step=10, seed=SEED, freeze=True).running() as chaos:
            while chaos.struck["inside"] < 4:
                await system.emit("orders", *(str(n) for n in range(told, told + 20)))
                told += 20
        runs = await system.finished("report", told)
        events = await system.events("orders")
        assert [e["key"] for e in events] == [str(n) for n in range(told)]
        assert [r["events"] for r in runs] == [[e["id"]] for e in events]
        await system.verify()


@pytest.mark.parametrize("freeze", [False, True], ids=["killed", "frozen"])
async def test_cursor_and_event_move_together(tmp_path: Path, database_url: str, freeze: bool) -> None:
    """airflow #65103, dbos #733: changes without a key are told once each, whatever becomes of the triggerers."""
    lines = tmp_path / "lines"
    async with System(tmp_path, database_url, schedulers=1, triggerers=3, workers=0) as system:
        system.write(MODULE, TRIGGER)
        text = pipeline("fed", lines, keyed=False).replace("@task", "#").replace("    def work", "    async def work")
        await system.sound("fed.py", text.replace("        work()\n", ""))
        await system.owner("fed")
        stored = partial(count, system, "event")
        told = owners = 0
        async with Chaos(system, "triggerer", stored, step=10, seed=SEED, freeze=freeze, aim=False).running() as chaos:
            while chaos.struck.total() < (5 if freeze else 10) or told < LINES or owners < 3:
                for _ in range(10):
                    append(lines, str(told))
                    told += 1
                await eventually(partial(at_least, stored, told - 20), why="the watcher is not far behind")
                owners = len(await system.sql("select distinct source ->> 'term' from event"))
        runs = await system.finished("fed", told)
        events = await system.events("fed")
        assert [e["extra"]["line"] for e in events] == [str(n) for n in range(told)]
        assert {e["witnesses"] for e in events} == {1}
        assert [r["events"] for r in runs] == [[e["id"]] for e in events]
        terms = [e["source"]["term"] for e in events]
        assert terms == sorted(terms)
        [watcher] = await system.watchers("fed")
        assert watcher["cursor"] == told
        await system.verify()


async def test_each_success_has_one_event_while_workers_are_killed(tmp_path: Path, database_url: str) -> None:
    """airflow #58570, #23520: attempts are repeated, outcomes and outlet events are not."""
    async with System(tmp_path, database_url, schedulers=1, workers=3) as system:
        await system.sound("produce.py", PRODUCERS)
        ended = "finished_at is not null and dag_id = (select id from dag where dag_id = 'produce')"
        over = partial(count, system, "run", ended)
        told = lost = 0
        async with Chaos(system, "worker", over, step=10, seed=SEED, aim=False).running():
            while lost < LOST or told < PRODUCED:
                await system.emit("orders", *(str(n) for n in range(told, told + 50)))
                told += 50
                await eventually(partial(at_least, over, told), every=0.2, why="every run has ended")
                lost = await count(system, "attempt", "outcome = 'lost'")
        runs = await system.finished("produce", told)
        succeeded = [r for r in runs if r["state"] == "success"]
        made = await system.events("made")
        assert sorted(e["source"]["run_id"] for e in made) == sorted(r["run_id"] for r in succeeded)
        for run in (r for r in runs if r["state"] == "failed"):
            [task] = await system.tasks("produce", run["run_id"])
            assert task["losses"] == 3, task
        consumers = await system.finished("consume", len(made))
        assert sorted(r["events"] for r in consumers) == [[e["id"]] for e in made]
        await system.verify()
