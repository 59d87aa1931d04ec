"""Thousands of events from many clients while schedulers are killed in the middle of their work."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from chaos import Chaos, at_least, count

from onceflow.store.database import Database
from onceflow.store.emit import change, emit
from onceflow.store.notify import notify_once
from support import eventually
from system import System

SEED = 20260
CLIENTS = 8
EVENTS = 10_000
CHANGES = 8_000
WITH_CODE = 400
MORE = 500
STRUCK_INSIDE = 3

EACH = """
    from onceflow import DAG, Asset, task

    with DAG("counts", schedule=Asset("many"), max_active_runs=200):
        pass

    with DAG("works", schedule=Asset("few"), max_active_runs=50):
        @task
        def work(triggering_asset_events):
            [[event]] = triggering_asset_events.values()
            return event.key
        work()
"""

Change = tuple[str, str]
"""Asset and key."""


async def client(url: str, name: int, changes: Sequence[Change]) -> None:
    """Emit the changes in small batches, each a transaction, as fast as it goes."""
    sizes = random.Random(SEED + name)
    async with await Database.connect(url, max_size=1, kind=f"client {name}") as database:
        left = list(changes)
        while left:
            size = sizes.randint(1, 40)
            batch, left = left[:size], left[size:]
            await emit(database, [change(asset, key) for asset, key in batch], {"kind": "client", "name": name})
            await notify_once(database, "delivery")


async def emit_all(url: str, changes: Sequence[Change]) -> None:
    """Emit with all clients at once."""
    async with asyncio.TaskGroup() as group:
        for name in range(CLIENTS):
            group.create_task(client(url, name, changes[name::CLIENTS]))


def mixed() -> list[Change]:
    """EVENTS sightings of CHANGES changes, in random order."""
    changes = [("few" if n < WITH_CODE else "many", str(n)) for n in range(CHANGES)]
    order = random.Random(SEED)
    sightings = changes + order.choices(changes, k=EVENTS - CHANGES)
    order.shuffle(sightings)
    return sightings


async def test_each_change_gets_one_run_while_schedulers_are_killed(tmp_path: Path, database_url: str) -> None:
    """airflow #63507, #54491, #60773, dagster #33962: 10,000 events, a fifth of them repeats, 8 clients."""
    async with System(tmp_path, database_url, schedulers=4, workers=1) as system:
        await system.sound("each.py", EACH)
        over = partial(count, system, "run", "state = 'success'")
        changes, sightings = CHANGES, EVENTS
        async with Chaos(system, "scheduler", over, step=300, seed=SEED).running() as chaos:
            await emit_all(system.url, mixed())
            await eventually(partial(at_least, over, CHANGES), every=0.5, why="every run has ended")
            while chaos.struck["inside"] < STRUCK_INSIDE:
                await emit_all(system.url, [("many", f"more {changes + n}") for n in range(MORE)])
                changes, sightings = changes + MORE, sightings + MORE
                await eventually(partial(at_least, over, changes), every=0.1, why="every run has ended")

        counts = await system.finished("counts", changes - WITH_CODE)
        works = await system.finished("works", WITH_CODE)
        events = await system.events()
        assert sum(e["witnesses"] for e in events) == sightings
        assert len(events) == len({(e["asset"], e["key"]) for e in events}) == len(counts) + len(works) == changes
        assert sorted(r["events"] for r in counts + works) == [[e["id"]] for e in events]
        assert {r["state"] for r in counts + works} == {"success"}
        assert (await system.json("verify"))["by_disposition"] == {"started": changes}


INPUTS = ("north", "east", "south", "west", "centre")
JOIN = f"""
    from onceflow import DAG, Asset

    with DAG("join", schedule=[Asset(name) for name in {INPUTS}], max_active_runs=200):
        pass
"""


@pytest.mark.parametrize("faults", [False, True], ids=["undisturbed", "killed"])
async def test_no_run_misses_an_input(tmp_path: Path, database_url: str, faults: bool) -> None:
    """airflow #56541, #62501, #54659: an AND of five assets under 8 clients and 4 schedulers never fires early.

    At the end the condition is false on what is left, and nothing is lost.
    """
    emitted = inputs(0, 3_000)
    async with System(tmp_path, database_url, schedulers=4, workers=0) as system:
        await system.sound("join.py", JOIN)
        async with AsyncExitStack() as stack:
            if faults:
                judged = partial(count, system, "delivery", "judged")
                chaos = Chaos(system, "scheduler", judged, step=100, seed=SEED)
                await stack.enter_async_context(chaos.running())
            await emit_all(system.url, emitted)
            while faults and not chaos.struck["inside"]:
                emitted += inputs(len(emitted), MORE)
                await emit_all(system.url, emitted[-MORE:])
                await eventually(partial(at_least, judged, len(emitted)), every=0.1, why="every event was judged")
        await eventually(lambda: all_judged(system), every=0.2, why="every event was judged")

        runs = await system.finished("join", 10)
        events = {e["id"]: e for e in await system.events()}
        assert {(e["asset"], e["key"]) for e in events.values()} == set(emitted)
        for run in runs:
            assert {events[event]["asset"] for event in run["events"]} == set(INPUTS), run
        taken = [event for run in runs for event in run["events"]]
        left = [e for e in events.values() if e["id"] not in set(taken)]
        assert len(taken) == len(set(taken)) == len(emitted) - len(left)
        assert {e["asset"] for e in left} < set(INPUTS)
        assert all([d["disposition"] for d in e["deliveries"]] == ["pending"] for e in left)
        assert (await system.json("verify"))["ok"]


def inputs(first: int, number: int) -> list[Change]:
    """So many changes of any of the inputs, from this key on."""
    return [(random.Random(SEED + n).choice(INPUTS), str(n)) for n in range(first, first + number)]


async def all_judged(system: System) -> bool:
    [row] = await system.sql("select count(*) from delivery where disposition = 'pending' and not judged")
    return row[0] == 0
