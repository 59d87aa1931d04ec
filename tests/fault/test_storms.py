"""Storms in a system of real processes: a condition that is always true, and a loop of events, while others go on."""

from __future__ import annotations

from pathlib import Path

from support import eventually
from system import System

STORMS = """
    import asyncio

    from onceflow import DAG, Asset, AssetWatcher, BaseEventTrigger, TriggerEvent, task


    class AlwaysTrue(BaseEventTrigger):
        def serialize(self):
            return "storms.AlwaysTrue", {}

        async def run(self):
            count = self.cursor or 0
            while True:
                count += 1
                yield TriggerEvent({"n": count}, key=str(count), cursor=count)


    always = Asset("always", watchers=[AssetWatcher("true", AlwaysTrue(), max_events_per_minute=30)])
    ping, pong, calm = Asset("ping"), Asset("pong"), Asset("calm")

    with DAG("every", schedule=always, max_runs_per_minute=10):
        @task
        def work(): ...
        work()

    with DAG("to_pong", schedule=ping, max_rounds=2):
        @task(outlets=[pong])
        def serve(): ...
        serve()

    with DAG("to_ping", schedule=pong):
        @task(outlets=[ping])
        def back(): ...
        back()

    with DAG("calm", schedule=calm):
        @task
        def rest(triggering_asset_events): print(len(triggering_asset_events[calm]))
        rest()
"""


async def test_storms_are_held_and_released(tmp_path: Path, database_url: str) -> None:
    """Both breakers and the loop trip where they should; nothing is skipped or lost, and the rest goes on."""
    async with System(tmp_path, database_url, schedulers=2, triggerers=2, workers=1) as system:
        await system.sound("storms.py", STORMS)

        async def in_storm() -> bool:
            [watcher] = await system.watchers("always")
            return watcher["state"] == "storm" and (await system.dag("every"))["storm_at"] is not None

        await eventually(in_storm, every=0.1, why="watcher and DAG are in a storm")
        [watcher] = await system.watchers("always")
        assert watcher["health"] == "red" and "30 are allowed" in watcher["reason"]
        assert (watcher["cursor"], watcher["owner"]) == (30, None)
        assert len(await system.events("always")) == 30
        assert len(await system.finished("every", 10)) == 10

        await system.emit("ping", "once")
        await system.emit("calm", "once")
        await system.finished("to_ping", 2)
        assert len(await system.finished("to_pong", 2)) == 2 and len(await system.finished("calm", 1)) == 1
        held = await system.json("events", "list", "--held", "--dag", "to_pong")
        assert [d["reason"] for e in held for d in e["deliveries"]] == ["loop"]
        await system.verify()

        done = await system.json("watchers", "release", "always", "--reason", "once more")
        assert done["released"] == ["true"]
        await eventually(in_storm, every=0.1, why="the watcher is in a storm again")
        assert [e["key"] for e in await system.events("always")] == [str(n) for n in range(1, 61)], "none is skipped"
        merged = await system.json("dags", "release", "every", "--merged", "--reason", "all in one")
        assert merged["deliveries"] == 50
        last = (await system.finished("every", 11))[-1]
        assert len(last["events"]) == 50
        rerun = await system.cli("runs", "rerun", "calm", (await system.runs("calm"))[0]["run_id"])
        assert rerun.returncode == 0
        again = await system.ended("calm", rerun.stdout.strip())
        assert (again["state"], again["run_type"], len(again["events"])) == ("success", "rerun", 1)
        await system.verify()
