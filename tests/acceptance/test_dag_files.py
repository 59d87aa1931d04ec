"""DAG files that are saved, changed, broken, mended and removed while everything runs."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from onceflow.runtime.postgres import EmbeddedPostgres
from support import eventually
from system import System, shared
from watched import MODULE, TRIGGER, append, pipeline

CONSUMER = """
    from onceflow import DAG, Asset, task

    with DAG("{dag_id}", schedule=Asset("{asset}")):
        @task
        def work():
            return "{says}"
        work()
"""


@pytest.fixture(scope="module")
def system(
    module_database: str, pg_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    with shared(System(tmp_path_factory.mktemp("files"), module_database, schedulers=2, triggerers=2)) as system:
        system.write(MODULE, TRIGGER)
        yield system


def consumer(name: str, *, asset: str = "", says: str = "") -> str:
    return CONSUMER.format(dag_id=name, asset=asset or name, says=says)


async def said(system: System, dag_id: str) -> list[str]:
    """What the task of each of the DAG's runs returned, in their order."""
    rows = await system.sql(
        "select x.value::text from xcom x join run r on r.id = x.run_id join dag d on d.id = r.dag_id "
        "where d.dag_id = $1 order by r.id",
        dag_id,
    )
    return [row[0].strip('"') for row in rows]


async def test_saved_file_is_live_and_a_change_makes_the_next_version(system: System) -> None:
    """airflow #48737: the first event after a file was seen starts a run; a change of the code is used at once."""
    await system.sound("saved.py", consumer("saved", says="one"))
    await system.emit("saved", "1")
    [first] = await system.finished("saved", 1)
    await system.sound("saved.py", consumer("saved", says="two"))
    await system.emit("saved", "2")
    await system.finished("saved", 2)
    assert await said(system, "saved") == ["one", "two"]
    await system.sound("saved.py", consumer("saved").replace("def work", "def other").replace("work()", "other()"))
    await system.emit("saved", "3")
    last = (await system.finished("saved", 3))[-1]
    assert last["version"] == first["version"] + 1
    assert [t["task_id"] for t in await system.tasks("saved", last["run_id"])] == ["other"]


async def test_removed_file_goes_stale_and_its_events_are_kept(system: System) -> None:
    await system.sound("removed.py", consumer("removed"))
    await system.emit("removed", "1")
    await system.finished("removed", 1)
    await system.pause("removed")
    await system.emit("removed", "held")
    (system.dags / "removed.py").unlink()
    await eventually(lambda: active(system, "removed", False), every=0.1, why="the DAG is stale")
    assert [e["key"] for e in await system.events("removed")] == ["1", "held"]
    assert len(await system.runs("removed")) == 1
    assert (await system.cli("dags", "trigger", "removed")).returncode == 1

    await system.sound("removed.py", consumer("removed"))
    await eventually(lambda: active(system, "removed", True), every=0.1, why="the DAG is back")
    await system.unpause("removed")
    assert len(await system.finished("removed", 2)) == 2


async def test_a_run_outlives_its_file(system: System) -> None:
    """What a run started with is kept while it runs, also when no worker had loaded the file before it was removed."""
    await system.sound("outlived.py", consumer("outlived", says="kept"))
    workers = [p["pid"] for p in await system.processes("worker")]
    for pid in workers:
        system.freeze(pid)
    await system.emit("outlived", "1")
    await eventually(lambda: running(system, "outlived"), why="the run has started")
    (system.dags / "outlived.py").unlink()
    await eventually(lambda: active(system, "outlived", False), every=0.1, why="the DAG is stale")
    system.thaw(*workers)
    await system.finished("outlived", 1)
    assert await said(system, "outlived") == ["kept"]


async def running(system: System, dag_id: str) -> bool:
    return [r["state"] for r in await system.runs(dag_id)] == ["running"]


async def active(system: System, dag_id: str, wanted: bool) -> bool:
    return (await system.dag(dag_id))["active"] is wanted


async def test_event_during_a_broken_file_gets_its_run(system: System) -> None:
    """airflow #59337, #60022, #64322: a broken file closes no subscription, and its last version goes on."""
    await system.sound("mended.py", consumer("mended", says="before"))
    broken = await system.register("mended.py", "from onceflow import DAG\nwith DAG('mended'\n")
    assert broken.failure is not None
    await system.emit("mended", "meanwhile")
    await system.finished("mended", 1)
    assert (await system.dag("mended"))["broken"]
    await system.sound("mended.py", consumer("mended", says="after"))
    assert not (await system.dag("mended"))["broken"]
    await system.emit("mended", "afterwards")
    await system.finished("mended", 2)
    assert await said(system, "mended") == ["before", "after"]


async def test_event_while_a_file_is_being_saved_gets_its_run(system: System) -> None:
    """airflow #59337: editors and copies truncate a file before they write it; that is no removal."""
    text = consumer("truncated", says="it")
    await system.sound("truncated.py", text)
    emptied = await system.register("truncated.py", "\n")
    assert emptied.failure is not None and "empty" in emptied.failure["message"]
    await system.emit("truncated", "meanwhile")
    await system.finished("truncated", 1)
    await system.sound("truncated.py", text)
    await system.emit("truncated", "afterwards")
    await system.finished("truncated", 2)


async def test_touching_a_file_a_hundred_times_changes_nothing(system: System, tmp_path: Path) -> None:
    """airflow #64625, #63724: an unchanged file makes no version and restarts no watcher."""
    lines = tmp_path / "lines"
    text = pipeline("touched", lines)
    await system.sound("touched.py", text)
    append(lines, "0")
    await system.finished("touched", 1)
    before = await state_of(system)
    for _ in range(100):
        system.write("touched.py", text)
        os.utime(system.dags / "touched.py")
    await system.sound("beside.py", consumer("beside"))
    await system.sound("beside.py", consumer("beside", says="again"))
    append(lines, "1")
    await system.finished("touched", 2)
    assert await state_of(system) == before

    await system.sound("touched.py", f"{text}\n    # a comment\n")
    append(lines, "2")
    await system.finished("touched", 3)
    after = await state_of(system)
    assert (after["id"], after["version"]) == (before["id"], before["version"])
    assert [(e["key"], e["witnesses"]) for e in await system.events("touched")] == [("0", 1), ("1", 1), ("2", 1)]


async def state_of(system: System) -> dict[str, object]:
    """What a restart of the watcher or a new version would change."""
    [watcher] = await system.watchers("touched")
    dag = await system.dag("touched")
    return {k: watcher[k] for k in ("id", "owner", "term", "claimed_at")} | {"version": dag["version"]}


async def test_changed_watcher_starts_anew_with_the_same_identity(system: System, tmp_path: Path) -> None:
    """airflow #64625: other arguments, another start; the watcher stays the same, and what was seen stays seen."""
    first, second = tmp_path / "first", tmp_path / "second"
    append(first, "a", "b")
    append(second, "b", "c")
    await system.sound("edited.py", pipeline("edited", first))
    await system.finished("edited", 2)
    [before] = await system.watchers("edited")
    await system.sound("edited.py", pipeline("edited", second))
    await system.finished("edited", 3)
    [after] = await system.watchers("edited")
    assert after["id"] == before["id"] and after["term"] > before["term"]
    events = await system.events("edited")
    assert [(e["key"], e["witnesses"]) for e in events] == [("a", 1), ("b", 2), ("c", 1)]


async def test_removed_watcher_ends(system: System, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    await system.sound("ended.py", pipeline("ended", lines))
    append(lines, "a")
    await system.finished("ended", 1)
    await system.sound("ended.py", consumer("ended"))

    async def let_go() -> bool:
        [watcher] = await system.watchers("ended", removed=True)
        return watcher["state"] == "removed" and watcher["owner"] is None

    await eventually(let_go, every=0.1, why="nobody owns the removed watcher any more")
    assert await system.watchers("ended") == []
    append(lines, "b")
    await system.emit("ended", "c")
    await system.finished("ended", 2)
    assert [e["key"] for e in await system.events("ended")] == ["a", "c"]


async def test_file_moved_keeps_everything(system: System) -> None:
    """A DAG that moves to another file keeps its runs, and gets every event."""
    await system.sound("old_place.py", consumer("moved", says="old"))
    await system.emit("moved", "1")
    await system.finished("moved", 1)
    (system.dags / "old_place.py").rename(system.dags / "new_place.py")

    async def followed() -> bool:
        dag = await system.dag("moved")
        return dag["file"] == "new_place.py" and dag["active"]

    await eventually(followed, every=0.1, why="the DAG is known at its new place")
    await system.emit("moved", "2")
    assert [r["state"] for r in await system.finished("moved", 2)] == ["success", "success"]


SHARED = "from onceflow import Asset\nshared = Asset('shared', uri='s3://{version}', key='{version}')\n"


async def test_an_asset_that_two_files_share_is_edited(system: System) -> None:
    """Both say something else at once: neither stands against what the other one said before."""
    system.write("shared_asset.py", SHARED.format(version="one"))
    consuming = consumer("shared").replace("from onceflow", "from shared_asset import shared\n    from onceflow", 1)
    await system.sound("shares.py", consuming.replace('Asset("shared")', "shared"))
    await system.sound("shares_too.py", consuming.replace('Asset("shared")', "shared").replace('"shared"', '"too"'))
    for version in ("two", "three"):
        system.write("shared_asset.py", SHARED.format(version=version))

        async def both(version: str = version) -> None:
            declared = await system.sql(
                "select d.uri, d.rules::text from asset_declaration d join asset a on a.id = d.asset_id "
                "where a.name = 'shared' union select uri, rules::text from asset where name = 'shared'"
            )
            assert [tuple(d) for d in declared] == [(f"s3://{version}", f'{{"key": {{"paths": ["{version}"]}}}}')]
            assert await system.errors() == []

        await eventually(lambda: _true(both()), every=0.2, why=f"both files say {version}")


async def _true(check: Awaitable[None]) -> bool:
    await check
    return True
