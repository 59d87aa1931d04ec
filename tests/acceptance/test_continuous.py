"""A producer that runs all the time and a consumer of what it produces."""

from __future__ import annotations

from pathlib import Path

from support import eventually
from system import System

PIPELINE = """
    from onceflow import DAG, Asset, task

    readings = Asset("readings")

    with DAG("producer", schedule="@continuous"):
        @task(outlets=[readings])
        def produce(run_id, outlet_events):
            outlet_events[readings].extra["by"] = run_id
        produce()

    with DAG("consumer", schedule=readings):
        @task
        def consume(triggering_asset_events):
            [[event]] = triggering_asset_events.values()
            return event.id
        consume()
"""
EVENTS = 200


async def test_every_success_of_a_producer_starts_one_run(tmp_path: Path, database_url: str) -> None:
    """airflow #63507: two schedulers, a continuous producer, and for 200 events 200 runs of one event each."""
    async with System(tmp_path, database_url, schedulers=2, workers=1) as system:
        await system.sound("pipeline.py", PIPELINE)
        await eventually(lambda: produced(system), every=0.25, why=f"{EVENTS} events are produced")
        await system.pause("producer")
        producers = await system.finished("producer", EVENTS)
        events = await system.events("readings")
        consumers = await system.finished("consumer", len(events))
        assert len(producers) == len(events) == len(consumers) >= EVENTS
        assert sorted(r["events"] for r in consumers) == [[e["id"]] for e in events]
        assert {e["extra"]["by"] for e in events} == {r["run_id"] for r in producers}
        assert all(r["state"] == "success" for r in producers + consumers)
        assert {p["created_by"]["process"] for p in consumers} <= {p["id"] for p in await system.processes("scheduler")}
        assert (await system.json("verify"))["by_disposition"] == {"started": len(events)}


async def produced(system: System) -> bool:
    return (await system.count_runs("producer")).get("success", 0) >= EVENTS
