"""A thousand watchers shared by two triggerers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from support import eventually
from system import System

WATCHERS = 1_000

QUIET = """
    import asyncio

    from onceflow import DAG, Asset, AssetWatcher, BaseEventTrigger, TriggerEvent


    class Quiet(BaseEventTrigger):
        def __init__(self, number):
            super().__init__()
            self.number = number

        def serialize(self):
            return "quiet.Quiet", {"number": self.number}

        async def run(self):
            yield TriggerEvent(self.number, key="begun")
            await asyncio.Event().wait()


    def watched(number):
        return Asset(f"source_{number}", watchers=[AssetWatcher("quiet", trigger=Quiet(number))])

    assets = [watched(n) for n in range(COUNT)]
    with DAG("rare", schedule=assets):
        pass
"""


async def test_watchers_are_shared_evenly_and_taken_over(tmp_path: Path, database_url: str) -> None:
    """airflow #58803, #32121, #72848: an even split, one owner each, no ping-pong; a dead owner's share moves on."""
    async with System(tmp_path, database_url, triggerers=2, workers=0) as system:
        await system.sound("quiet.py", QUIET.replace("COUNT", str(WATCHERS)))
        await eventually(lambda: split(system), every=0.3, why="both own their share")
        shares = await split(system)
        assert min(shares.values()) >= 0.4 * WATCHERS, shares
        [run] = await system.finished("rare", 1)
        assert len(run["events"]) == WATCHERS

        settled = {w["watcher"] + w["asset"]: (w["owner"], w["term"]) for w in await system.watchers()}
        await system.sound("other.py", "from onceflow import DAG\nother = DAG('other')\n")
        assert {w["watcher"] + w["asset"]: (w["owner"], w["term"]) for w in await system.watchers()} == settled

        victim = next(p for p in await system.processes("triggerer") if p["id"] in shares)
        system.kill(victim["pid"])
        await eventually(lambda: split(system, without=victim["id"]), every=0.3, why="the share moved on")
        assert {e["witnesses"] for e in await system.events()} <= {1, 2, 3}
        assert len(await system.events()) == WATCHERS
        assert len(await system.runs("rare")) == 1
        await system.verify()


async def split(system: System, without: str = "") -> Counter[str]:
    """How many watchers each triggerer owns, once each has an owner, not `without`, and two share them."""
    owners = Counter(w["owner"] for w in await system.watchers() if w["owner"])
    assert owners.total() == WATCHERS and without not in owners and len(owners) == 2, owners
    return owners
