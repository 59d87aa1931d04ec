"""Windows, the latest, filters, pauses and history, by real processes: several schedulers, of which one is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support import eventually
from system import System

DAGS = """
    import time
    from pathlib import Path

    from onceflow import DAG, Asset, EmptyOperator, Filter, Latest, Window, task

    orders = Asset("orders")
    paid = Filter("status", "==", "paid")

    with DAG("batch", schedule=orders, consume=Window(quiet=1.0, max_wait=60)):
        EmptyOperator(task_id="work")

    with DAG("ship", schedule=orders.when(paid)):
        EmptyOperator(task_id="work")

    with DAG("newest", schedule=orders, consume=Latest()):
        @task
        def work(triggering_asset_events=None):
            while not Path({go!r}).exists():
                time.sleep(0.02)
            [event] = triggering_asset_events[orders]
            print("worked on", event.extra["n"])
        work()

    with DAG("ordered", schedule=[orders], max_active_runs=1):
        @task
        def work(triggering_asset_events=None):
            print([event.extra["n"] for event in triggering_asset_events[orders]])
        work()
"""
HISTORY = """
    from onceflow import DAG, Asset, EmptyOperator

    with DAG("late", schedule=Asset("orders"), catchup=True):
        EmptyOperator(task_id="work")
    with DAG("later", schedule=Asset("orders")):
        EmptyOperator(task_id="work")
"""


async def test_policies_filters_pauses_and_history(tmp_path: Path, database_url: str) -> None:
    """airflow #52230, #56691, #49857, #68749, #55956; dagster-io/dagster#25145; PrefectHQ/prefect#11199.

    The events of a run come in the order of their commit; without a word each has a run of its own.
    """
    go = tmp_path / "go"
    async with System(tmp_path, database_url, schedulers=3) as system:
        await system.sound("consuming.py", DAGS.format(go=str(go)))
        await system.pause("ordered")
        sent = await emit(system, *range(6))
        [scheduler, *_] = await system.processes("scheduler")
        system.kill(scheduler["pid"])

        [batch] = await system.finished("batch", 1)
        assert batch["events"] == sent
        shipped = await system.finished("ship", 3)
        assert [r["events"] for r in shipped] == [[e] for e in sent[1::2]]
        go.touch()
        newest = await eventually(lambda: took(system, "newest", sent[-1]), why="the newest event has its run")
        assert len(newest) < len(sent)

        assert await system.runs("ordered") == []
        done = await system.cli("dags", "unpause", "ordered", "--pending", "join", "--reason", "one report")
        assert done.returncode == 0 and "6 events" in done.stdout, done
        [ordered] = await system.finished("ordered", 1)
        assert ordered["events"] == sent
        logs = await system.cli("tasks", "logs", "ordered", ordered["run_id"], "work")
        assert "[0, 1, 2, 3, 4, 5]" in logs.stdout

        await system.sound("history.py", HISTORY)
        [new] = await emit(system, 6)
        assert [r["events"] for r in await system.finished("late", 7)] == [[e] for e in [*sent, new]]
        assert [r["events"] for r in await system.finished("later", 1)] == [[new]]

        why = await system.cli("why", "event", str(sent[0]))
        assert "DAG ship: filtered at" in why.stdout and 'status == "paid" is not met: status is "open"' in why.stdout
        assert "resumed it with --pending join at" in why.stdout and "because: one report" in why.stdout
        await eventually(lambda: took(system, "newest", new), why="the newest event has its run")
        found = await eventually(lambda: settled(system), why="nothing is open")
        assert found["by_disposition"]["filtered"] == 4


async def emit(system: System, *numbers: int) -> list[int]:
    """Events with these numbers, the odd ones paid, in one transaction; their ids."""
    lines = [json.dumps({"extra": {"n": n, "status": "paid" if n % 2 else "open"}}) for n in numbers]
    before = len(await system.events("orders"))
    done = await system.cli("assets", "emit", "orders", "--from", "-", given="\n".join(lines))
    assert done.returncode == 0, done.stderr
    return [e["id"] for e in await system.events("orders")][before:]


async def took(system: System, dag_id: str, event: int) -> Any:
    runs = await system.runs(dag_id)
    return runs if runs and runs[-1]["events"] == [event] and runs[-1]["state"] == "success" else None


async def settled(system: System) -> dict[str, Any]:
    found = await system.verify()
    assert not {"pending", "held"} & found["by_disposition"].keys(), found
    return found
