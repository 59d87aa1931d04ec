"""Processes that are killed or frozen at random, seeded moments, many of them inside a transaction."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from chaos import Chaos

from support import eventually
from system import System
from watched import MODULE, TRIGGER, append, pipeline

SEED = 20261
LINES = 150

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


@pytest.mark.timeout(180)
async def test_schedulers_frozen_inside_transactions_hold_nobody_up(tmp_path: Path, database_url: str) -> None:
    """argo-events #1516, hatchet #4129: a frozen scheduler's locks are freed, and when it wakes it changes nothing."""
    async with System(tmp_path, database_url, schedulers=3, workers=0) as system:
        await system.sound("report.py", CONSUMER)
        told = 0
        async with Chaos(system, "scheduler", seed=SEED, freeze=True, pause=(0.0, 0.1)).running() as chaos:
            while chaos.struck["inside"] < 4:
                await system.emit("orders", *(str(n) for n in range(told, told + 20)))
                told += 20
        chaos.report(inside=4)
        runs = await system.finished("report", told, timeout=60)
        events = await system.events("orders")
        assert [e["key"] for e in events] == [str(n) for n in range(told)]
        assert [r["events"] for r in runs] == [[e["id"]] for e in events]
        await system.verify()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("freeze", [False, True], ids=["killed", "frozen"])
async def test_cursor_and_event_move_together(tmp_path: Path, database_url: str, freeze: bool) -> None:
    """airflow #65103, dbos #733: changes without a key are told once each, whatever becomes of the triggerers."""
    lines = tmp_path / "lines"
    async with System(tmp_path, database_url, schedulers=1, triggerers=3, workers=0) as system:
        system.write(MODULE, TRIGGER)
        text = pipeline("fed", lines, keyed=False).replace("@task", "#").replace("    def work", "    async def work")
        await system.sound("fed.py", text.replace("        work()\n", ""))
        await system.owner("fed")
        told = 0
        async with Chaos(system, "triggerer", seed=SEED, freeze=freeze, aim=False, pause=(0.2, 0.6)).running() as chaos:
            while chaos.struck.total() < (5 if freeze else 10) or told < LINES:
                append(lines, str(told))
                told += 1
                await asyncio.sleep(0.02)
        runs = await system.finished("fed", told, timeout=90)
        events = await system.events("fed")
        assert [e["extra"]["line"] for e in events] == [str(n) for n in range(told)]
        assert {e["witnesses"] for e in events} == {1}
        assert [r["events"] for r in runs] == [[e["id"]] for e in events]
        terms = [e["source"]["term"] for e in events]
        assert terms == sorted(terms) and len(set(terms)) > 1
        [watcher] = await system.watchers("fed")
        assert watcher["cursor"] == told
        await system.verify()


@pytest.mark.timeout(180)
async def test_each_success_has_one_event_while_workers_are_killed(tmp_path: Path, database_url: str) -> None:
    """airflow #58570, #23520: attempts are repeated, outcomes and outlet events are not."""
    async with System(tmp_path, database_url, schedulers=1, workers=3) as system:
        await system.sound("produce.py", PRODUCERS)
        keys = [str(n) for n in range(200)]
        await system.emit("orders", *keys)
        async with Chaos(system, "worker", seed=SEED, aim=False, pause=(0.5, 1.0)).running() as chaos:
            await eventually(lambda: ended(system, len(keys)), timeout=120, every=0.2, why="every run has ended")
        assert chaos.struck.total() >= 2
        runs = await system.finished("produce", len(keys))
        succeeded = [r for r in runs if r["state"] == "success"]
        made = await system.events("made")
        assert sorted(e["source"]["run_id"] for e in made) == sorted(r["run_id"] for r in succeeded)
        for run in (r for r in runs if r["state"] == "failed"):
            [task] = await system.tasks("produce", run["run_id"])
            assert task["losses"] == 3, task
        lost = await system.sql("select count(*) from attempt where outcome = 'lost'")
        assert lost[0][0] > 0, "no kill struck a task"
        consumers = await system.finished("consume", len(made))
        assert sorted(r["events"] for r in consumers) == [[e["id"]] for e in made]
        await system.verify()


async def ended(system: System, count: int) -> bool:
    counts = await system.count_runs("produce")
    assert counts.get("success", 0) + counts.get("failed", 0) == count, counts
    return True
