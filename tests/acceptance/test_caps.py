"""Events that come while a DAG may start no further run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from support import eventually
from system import System

PIPELINE = """
    import time
    from pathlib import Path

    from onceflow import DAG, All, Asset, task

    orders = Asset("orders")

    def wait_for(path):
        while not Path(path).exists():
            time.sleep(0.02)

    with DAG("single", schedule=orders, max_active_runs=1):
        @task
        def work():
            wait_for({go!r})
        work()

    with DAG("together", schedule=orders, consume=All(), max_active_runs=1):
        @task
        def work():
            wait_for({go!r})
        work()
"""
EVENTS = 12


async def test_events_during_a_run_start_the_next_ones_without_another_event(tmp_path: Path, database_url: str) -> None:
    """airflow #56050, #73032, #45388, #70880: with a cap of 1 each event gets its run, in order, one at a time."""
    go = tmp_path / "go"
    async with System(tmp_path, database_url, schedulers=4) as system:
        await system.sound("caps.py", PIPELINE.format(go=str(go)))
        [first] = await system.emit("orders", "0")
        await eventually(lambda: counted(system, "single", running=1), why="the first run holds the only place")
        rest = await system.emit("orders", *map(str, range(1, EVENTS)))
        await eventually(lambda: counted(system, "single", running=1, queued=EVENTS - 1), every=0.1)
        go.touch()

        runs = await system.finished("single", EVENTS)
        assert [r["events"] for r in runs] == [[first.event_id], *[[r.event_id] for r in rest]]
        assert [r["ordinal"] for r in runs] == list(range(1, EVENTS + 1))
        for before, after in pairwise(runs):
            assert before["finished_at"] <= after["started_at"]

        together = await system.finished("together", 1)
        taken = [event for run in together for event in run["events"]]
        assert sorted(taken) == [r.event_id for r in (first, *rest)]
        assert {run["state"] for run in together} == {"success"}
        await system.verify()


async def counted(system: System, dag_id: str, **wanted: int) -> bool:
    assert (counts := await system.count_runs(dag_id)) == wanted, counts
    return True
