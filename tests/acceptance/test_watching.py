"""One watcher for many assets, watchers that every triggerer runs, edits, and health: by real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow.queries.rows import Row
from onceflow.runtime.postgres import EmbeddedPostgres
from support import eventually
from system import System, shared
from watched import append

ASSETS = 25

QUEUE = '''
    """A queue, as a file of JSON lines. Each start of its trigger opens a connection, which it leaves as a file."""
    import asyncio
    import json
    import os
    import uuid
    from pathlib import Path

    from onceflow import BaseEventTrigger, TriggerEvent
    from wording import worded


    class Queue(BaseEventTrigger):
        silent_after = 30.0

        def __init__(self, path, keyed=True):
            super().__init__()
            self.path = path
            self.keyed = keyed

        def serialize(self):
            return "queues.Queue", {"path": self.path, "keyed": self.keyed}

        async def run(self):
            Path(f"{self.path}.opened.{uuid.uuid4()}").touch()
            told = self.cursor or 0
            while True:
                path = Path(self.path)
                lines = path.read_text().splitlines() if path.exists() else []
                for line in lines[told:]:
                    told += 1
                    yield TriggerEvent(worded(json.loads(line)), key=line if self.keyed else None, cursor=told)
                self.observed()
                await asyncio.sleep(0.05)


    class Bus(Queue):
        """The same without a cursor, for everybody at once; it tells who told."""

        has_cursor = False

        def serialize(self):
            return "queues.Bus", {"path": self.path}

        async def run(self):
            told = 0
            while True:
                path = Path(self.path)
                lines = path.read_text().splitlines() if path.exists() else []
                for line in lines[told:]:
                    told += 1
                    yield TriggerEvent({"line": json.loads(line)}, key=line)
                self.observed()
                await asyncio.sleep(0.05)
'''

WORDING = """
    def worded(payload):
        return payload | {"said": "SAID"}
"""

ONE_QUEUE = """
    from onceflow import DAG, Asset, AssetWatcher
    from queues import Queue

    def region(n):
        watcher = AssetWatcher("queue", Queue(PATH, keyed=False), match={"region": n})
        return Asset(f"NAME.{n}", watchers=[watcher])

    every = Asset("NAME.every", watchers=[AssetWatcher("queue", Queue(PATH, keyed=False))])
    regions = [region(n) for n in range(COUNT)]
    with DAG("NAME", schedule=every):
        pass
"""


@pytest.fixture(scope="module")
def system(
    module_database: str, pg_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("watching")
    with shared(System(folder, module_database, schedulers=1, triggerers=3, workers=0, scan_seconds=1)) as system:
        system.write("wording.py", WORDING)
        system.write("queues.py", QUEUE)
        yield system


def one_queue(name: str, path: Path, *, count: int = ASSETS) -> str:
    return ONE_QUEUE.replace("NAME", name).replace("PATH", repr(str(path))).replace("COUNT", str(count))


def message(path: Path, **payload: Any) -> None:
    append(path, json.dumps(payload))


def connections(path: Path) -> int:
    """How often the queue was opened."""
    return len(list(path.parent.glob(f"{path.name}.opened.*")))


async def told(system: System, asset: str, number: int) -> list[Row]:
    """The asset's events, once there are so many."""

    async def enough() -> list[Row]:
        events = await system.events(asset)
        assert len(events) >= number, len(events)
        return events

    return await eventually(enough, every=0.05, why=f"{number} events of {asset}")


async def watcher(system: System, asset: str, **wanted: Any) -> Row:
    """The asset's watcher, once it is so."""

    async def found() -> Row:
        [row] = await system.watchers(asset)
        assert {k: row[k] for k in wanted} == wanted, row
        return row

    return await eventually(found, every=0.05, why=f"the watcher of {asset} is {wanted}")


async def test_many_assets_on_one_queue_have_one_poller(system: System, tmp_path: Path) -> None:
    """airflow #66476, #50369, PR#71460: 25 assets on one queue, in two files: one poller, one connection, one cursor.

    A change is an event of each asset that it matches; one that matches none is acknowledged, and counted.
    """
    path = tmp_path / "queue"
    await system.sound("regions.py", one_queue("regions", path))
    [row] = await system.watchers("regions.every")
    assert [a["asset"] for a in row["assets"]] == sorted(["regions.every", *(f"regions.{n}" for n in range(ASSETS))])
    for n in (*range(ASSETS), 3, 3):
        message(path, region=n)
    assert len(await told(system, "regions.every", ASSETS + 2)) == ASSETS + 2
    counts = [len(await system.events(f"regions.{n}")) for n in range(ASSETS)]
    assert counts == [3 if n == 3 else 1 for n in range(ASSETS)]
    assert connections(path) == 1
    row = await watcher(system, "regions.every", cursor=ASSETS + 2)

    second = one_queue("second", path, count=2)  # joins without a restart, and gets what comes from then on
    await system.sound("second.py", second)
    message(path, region=1)
    assert len(await told(system, "second.1", 1)) == 1
    assert connections(path) == 1
    assert await system.events("second.0") == []

    after = await watcher(system, "second.1", cursor=ASSETS + 3, unmatched=0)
    assert (after["id"], after["term"]) == (row["id"], row["term"])
    assert len(after["assets"]) == ASSETS + 4 and {p.partition(":")[0] for p in after["places"]} == {
        "regions.py",
        "second.py",
    }
    await system.finished("regions", ASSETS + 3)
    await system.verify()


async def test_what_matches_nothing_is_counted(system: System, tmp_path: Path) -> None:
    path = tmp_path / "queue"
    text = one_queue("few", path, count=1)
    await system.sound("few.py", text.replace(f'[AssetWatcher("queue", Queue({str(path)!r}, keyed=False))]', "[]"))
    for n in (0, 1, 2):
        message(path, region=n)
    row = await watcher(system, "few.0", unmatched=2, cursor=3)
    assert row["last_unmatched_at"] is not None
    assert [e["extra"]["region"] for e in await system.events("few.0")] == [0]


async def test_every_triggerer_runs_a_watcher_of_mode_all(system: System, tmp_path: Path) -> None:
    """No gap when one dies: the others tell the change meanwhile; what several tell is one event.

    airflow discussion "duplicate runs with AssetWatcher on several triggerers": one event per change.
    """
    path = tmp_path / "bus"
    await system.sound(
        "bus.py",
        f"""
        from onceflow import DAG, Asset, AssetWatcher
        from queues import Bus
        bus = Asset("bus", watchers=[AssetWatcher("bus", Bus({str(path)!r}), mode="all")])
        with DAG("rides", schedule=bus):
            pass
        """,
    )

    async def all_three() -> Row:
        [row] = await system.watchers("bus")
        assert sum(w["running"] for w in row["watched_by"]) == 3, row["watched_by"]
        return row

    row = await eventually(all_three, every=0.05, why="three triggerers run it")
    assert (row["owner"], row["mode"], {w["strikes"] for w in row["watched_by"]}) == (None, "all", {0})
    for n in range(10):
        message(path, number=n)
    await told(system, "bus", 10)
    await watcher(system, "bus", health="healthy")

    victim = row["watched_by"][0]
    system.kill(victim["pid"])
    message(path, number=10)
    await told(system, "bus", 11)

    async def replaced() -> bool:
        [now] = await system.watchers("bus")
        return victim["owner"] not in [w["owner"] for w in now["watched_by"]] and len(now["watched_by"]) == 3

    await eventually(replaced, every=0.05, why="the dead one's row is gone, another has taken its place")
    await system.finished("rides", 11)
    assert len(await system.runs("rides")) == len(await system.events("bus")) == 11
    assert {e["witnesses"] for e in await system.events("bus")} <= {1, 2, 3, 4}
    await system.verify()


EDITED = """
    from onceflow import DAG, Asset, AssetWatcher
    from queues import Queue

    one = Asset("ONE", watchers=[AssetWatcher("queue", Queue(FIRST, keyed=False), keep_cursor=True)])
    two = Asset("TWO", watchers=[AssetWatcher("queue", Queue(SECOND, keyed=False))])
    with DAG("DAG_ID", schedule=one | two):
        pass
"""


def edited(name: str, one: Path, two: Path) -> str:
    text = EDITED.replace("ONE", f"{name}.one").replace("TWO", f"{name}.two").replace("DAG_ID", name)
    return text.replace("FIRST", repr(str(one))).replace("SECOND", repr(str(two)))


async def test_an_edit_of_arguments_restarts_only_that_watcher(system: System, tmp_path: Path) -> None:
    """airflow #64625: and keeps the cursor if its author says so; the trigger's class is not touched."""
    one, moved, two = tmp_path / "one", tmp_path / "moved", tmp_path / "two"
    await system.sound("edited.py", edited("edited", one, two))
    for path in (one, two):
        message(path, region=1)
    await told(system, "edited.one", 1)
    beside = (await told(system, "edited.two", 1)) and await watcher(system, "edited.two", cursor=1)
    before = await watcher(system, "edited.one", cursor=1)

    moved.write_text(one.read_text())
    message(moved, region=2)
    await system.sound("edited.py", edited("edited", moved, two))
    assert [e["extra"]["region"] for e in await told(system, "edited.one", 2)] == [1, 2]
    after = await watcher(system, "edited.one", cursor=2)
    assert (after["id"], after["term"] > before["term"]) == (before["id"], True)
    now = await watcher(system, "edited.two", cursor=1)
    assert (now["id"], now["term"], now["claimed_at"]) == (beside["id"], beside["term"], beside["claimed_at"])
    assert (connections(one), connections(moved), connections(two)) == (1, 1, 1)


async def test_a_changed_helper_module_reaches_the_triggers(system: System, tmp_path: Path) -> None:
    """Without a restart of the triggerer: the watchers of a class start again when what it imports has changed."""
    path = tmp_path / "queue"
    await system.sound("helped.py", one_queue("helped", path, count=1))
    message(path, region=5)
    [first] = await told(system, "helped.every", 1)
    assert first["extra"]["said"] == "SAID"
    await watcher(system, "helped.every", cursor=1)
    system.write("wording.py", WORDING.replace("SAID", "said again"))

    async def said_again() -> bool:
        message(path, region=6)
        await told(system, "helped.every", 2)
        return (await system.events("helped.every"))[-1]["extra"]["said"] == "said again"

    await eventually(said_again, every=0.2, why="the new wording")
    lines = path.read_text().splitlines()
    events = await told(system, "helped.every", len(lines))
    assert len(events) == len(lines)
    assert {e["witnesses"] for e in events} == {1}


async def test_health_is_told_and_checked(system: System, tmp_path: Path) -> None:
    """airflow #64617, #32091, #65945, kestra#17988: what does not work is red, with the reason, and never healthy."""
    await system.sound(
        "sick.py",
        """
        import asyncio
        from onceflow import DAG, Asset, AssetWatcher, BaseEventTrigger

        class Sick(BaseEventTrigger):
            has_cursor = has_key = True

            def __init__(self, how):
                super().__init__()
                self.how = how

            def serialize(self):
                return "sick.Sick", {"how": self.how}

            async def run(self):
                if self.how == "fails":
                    raise ConnectionError("no route")
                if self.how == "well":
                    self.observed()
                await asyncio.Event().wait()
                yield

        def asset(how, **more):
            return Asset(f"sick.{how}", watchers=[AssetWatcher("w", Sick(how), **more)])

        made = [asset("fails"), asset("quiet"), asset("silent", silent_after=1), asset("well", silent_after=600)]
        with DAG("sick", schedule=made):
            pass
        """,
    )
    failing = await watcher(system, "sick.fails", health="red", state="backing off")
    assert "no route" in failing["reason"] and failing["next_try_at"] is not None
    silent = await watcher(system, "sick.silent", health="red", state="silent")
    assert "1 s are allowed" in silent["reason"] and silent["last_observation"] is None
    await watcher(system, "sick.quiet", health="unproven", state="watching")
    await watcher(system, "sick.well", health="healthy", state="watching")
    listed = await system.cli("watchers", "--asset", "sick.well", "--check")
    assert (listed.returncode, "healthy" in listed.stdout) == (0, True)
    listed = await system.cli("watchers", "--check")
    assert (listed.returncode, "no route" in listed.stdout) == (1, True)
    assert {p["ready"] for p in await system.processes("triggerer")} == {True}


async def test_a_canary_measures_the_delay_and_starts_nothing(system: System, tmp_path: Path) -> None:
    """mitodl/ol-infrastructure PR#5603: how far behind the whole is can be seen before anybody misses a run."""
    path = tmp_path / "queue"
    text = one_queue("mine", path, count=1).replace("keyed=False))]", "keyed=False), canary=0.2)]")
    await system.sound("mine.py", text)

    async def measured() -> Row:
        [row] = await system.watchers("mine.every")
        assert row["canary"] is not None and row["canary"]["delay"] is not None, row["canary"]
        return row

    first = await eventually(measured, every=0.05, why="a canary is judged")
    message(path, region=1)
    await system.finished("mine", 1)

    async def another() -> bool:
        [row] = await system.watchers("mine.every")
        return row["canary"]["made_at"] > first["canary"]["made_at"] and row["canary"]["to_judge"] is not None

    await eventually(another, every=0.02, why="another one is judged")
    parts = first["canary"]
    assert parts["made_at"].endswith("Z")
    assert all(parts[name] >= 0 for name in ("to_notice", "to_store", "to_judge"))
    assert parts["delay"] == pytest.approx(parts["to_notice"] + parts["to_store"] + parts["to_judge"], abs=0.05)
    assert (len(await system.events("mine.every")), len(await system.runs("mine"))) == (1, 1)
    await watcher(system, "mine.every", health="healthy", cursor=1)
    await system.verify()


async def test_arguments_arrive_as_they_were_given(system: System) -> None:
    """airflow #52693: tuples, mappings, None and times, through the database and the guest."""
    await system.sound(
        "given.py",
        """
        import asyncio
        from datetime import datetime, timedelta, timezone
        from onceflow import DAG, Asset, AssetWatcher, BaseEventTrigger, TriggerEvent

        class Given(BaseEventTrigger):
            has_cursor = has_key = True

            def __init__(self, **given):
                super().__init__()
                self.given = given

            def serialize(self):
                return "given.Given", self.given

            async def run(self):
                yield TriggerEvent({"given": repr(sorted(self.given.items()))}, key="given")
                await asyncio.Event().wait()

        GIVEN = {
            "pair": (1, "two"), "nothing": None, "nested": {"a": [1, (2, 3)]}, "pause": timedelta(seconds=1.5),
            "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
        }
        said = {"given": repr(sorted(GIVEN.items()))}
        given = Asset("given", extra=said, watchers=[AssetWatcher("w", Given(**GIVEN))])
        """,
    )
    [event] = await told(system, "given", 1)
    [row] = await system.sql("select extra ->> 'given' as given from asset where name = 'given'")
    assert event["extra"]["given"] == row["given"]
