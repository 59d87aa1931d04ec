"""One command that runs everything, with a database of its own: how it ends, and what it survives."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import httpx
import pytest

from onceflow.runtime.postgres_place import Place
from support import alive, eventually
from system import System, children, gone
from watched import MODULE, TRIGGER, append, pipeline

LONG_LEASE = 60.0
"""Longer than any wait here: what is taken over meanwhile was not waited for."""

PIPELINE = """
    import time
    from pathlib import Path

    from onceflow import DAG, Asset, task

    with DAG("report", schedule=Asset("orders")):
        @task
        def work():
            pass
        work()

    with DAG("waiting"):
        @task
        def work(dag_run):
            folder = Path(dag_run.conf["folder"])
            (folder / "begun").touch()
            while not (folder / "go").exists():
                time.sleep(0.02)
        work()
"""


async def begin_a_task(system: System, folder: Path) -> str:
    """Start a run whose task waits for the file `go`; returns once it runs."""
    (folder / "begun").unlink(missing_ok=True)
    run_id = await system.trigger("waiting", {"folder": str(folder)})
    await eventually((folder / "begun").exists, why="the task has begun")
    return run_id


async def test_sigterm_stops_everything_and_leaves_no_process(tmp_path: Path) -> None:
    async with System(tmp_path, schedulers=2, triggerers=2) as system:
        system.write(MODULE, TRIGGER)
        await system.sound("lines_of.py", pipeline("lines_of", tmp_path / "lines"))
        await system.sound("pipeline.py", PIPELINE)
        await system.owner("lines_of")
        run_id = await begin_a_task(system, tmp_path)
        everything = system.descendants()
        assert len(everything) > 10
        assert system.stop() == 0
        assert [p for p in everything if alive(p)] == []

        system.start()
        await system.ready()
        (tmp_path / "go").touch()
        assert (await system.ended("waiting", run_id))["state"] == "success"
        assert [a["outcome"] for a in await system.attempts("waiting", run_id)] == ["stopped", "success"]
        states = {p["state"] for p in await system.processes(state=None) if p["pid"] in everything}
        assert states == {"stopped"}
        await system.verify()


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["--port", "{taken}"], {}, "cannot serve on 127.0.0.1 port"),
        (["--port", "0"], {"ONCEFLOW_EXECUTOR": "none"}, "allowed: local"),
        (["--port", "0", "--dags", "/dev/null"], {}, "set dags to a folder"),
    ],
)
def test_what_no_restart_helps_ends_it_at_once(
    tmp_path: Path, database_url: str, arguments: list[str], environment: dict[str, str], said: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [a.format(taken=taken.getsockname()[1]) for a in arguments]
        command = [sys.executable, "-m", "onceflow.cli.main", "--home", str(tmp_path), "standalone", *given]
        environment |= {"ONCEFLOW_DATABASE_URL": database_url}
        done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "ready" not in done.stdout


async def test_sigkill_takes_everything_down_and_loses_nothing(tmp_path: Path) -> None:
    async with System(tmp_path, schedulers=2) as system:
        await system.sound("pipeline.py", PIPELINE)
        run_id = await begin_a_task(system, tmp_path)
        keys = [str(n) for n in range(50)]
        stored = await system.emit("orders", *keys)
        everything = system.descendants()
        system.parent.kill()
        system.parent.wait()
        await gone(everything)

        system.start()
        await system.ready()
        (tmp_path / "go").touch()
        reports = await system.finished("report", len(keys))
        assert sorted(r["events"] for r in reports) == [[s.event_id] for s in stored]
        assert (await system.ended("waiting", run_id))["state"] == "success"
        cut_off, last = [a["outcome"] for a in await system.attempts("waiting", run_id)]
        assert cut_off in ("lost", "stopped"), (
            "a worker may see its parent's pipe close just before it is killed itself"
        )
        assert last == "success"
        await system.verify()


async def test_what_a_killed_child_owned_is_taken_over_at_once(tmp_path: Path) -> None:
    """airflow #13808, dagster #9623: a child that dies is released by its parent; nobody waits for its lease.

    Also the only scheduler is replaced, and what came meanwhile has its run, once.
    """
    async with System(tmp_path, triggerers=2, workers=2, lease_seconds=LONG_LEASE) as system:
        system.write(MODULE, TRIGGER)
        await system.sound("lines_of.py", pipeline("lines_of", tmp_path / "lines"))
        await system.sound("pipeline.py", PIPELINE)
        append(tmp_path / "lines", "a")
        await system.finished("lines_of", 1)

        owner = await system.owner("lines_of")
        system.kill(owner["pid"])
        append(tmp_path / "lines", "b")
        await system.finished("lines_of", 2)
        successor = await system.owner("lines_of")
        assert successor["id"] != owner["id"]

        run_id = await begin_a_task(system, tmp_path)
        [attempt] = await system.attempts("waiting", run_id)
        [worker] = [p for p in await system.processes("worker") if p["id"] == attempt["worker"]]
        system.kill(worker["pid"])
        (tmp_path / "go").touch()
        assert (await system.ended("waiting", run_id))["state"] == "success"
        assert [a["outcome"] for a in await system.attempts("waiting", run_id)] == ["lost", "success"]

        [scheduler] = await system.processes("scheduler")
        system.kill(scheduler["pid"])
        [stored] = await system.emit("orders", "while none was there")
        assert [r["events"] for r in await system.finished("report", 1)] == [[stored.event_id]]

        async def buried() -> bool:
            everyone = {p["id"]: p["state"] for p in await system.processes(state=None)}
            return {everyone[p["id"]] for p in (owner, worker, scheduler)} == {"dead"}

        await eventually(buried, why="the dead are declared dead")
        await system.verify()


async def test_a_child_that_stands_still_is_killed_by_its_parent(tmp_path: Path) -> None:
    """airflow #65945, #32091: alive is not working. The only one of its kind is replaced, however long its lease is."""
    async with System(tmp_path, lease_seconds=LONG_LEASE, hang_seconds=10) as system:
        await system.sound("pipeline.py", PIPELINE)
        [scheduler] = await system.processes("scheduler")
        [api] = await eventually(lambda: system.processes("api-server"), every=0.1, why="the API server serves")
        for frozen in (scheduler, api):
            system.freeze(frozen["pid"])
        await gone([scheduler["pid"], api["pid"]])
        [stored] = await system.emit("orders", "while it stood still")
        assert [r["events"] for r in await system.finished("report", 1)] == [[stored.event_id]]

        async def all_there() -> bool:
            return {p["kind"] for p in await system.processes()} >= {"scheduler", "api-server"}

        await eventually(all_there, why="both are replaced")
        assert "scheduler has stood still for 10 s: killing it" in system.log_tail()
        await system.verify()


async def test_owners_end_while_the_database_stands_still(tmp_path: Path) -> None:
    """argo-events #1747: others may do by now what they did, and nobody can tell them; health says what is wrong."""
    async with System(tmp_path, triggerers=1) as system:
        await system.sound("pipeline.py", PIPELINE)
        run_id = await begin_a_task(system, tmp_path)
        owners = [p["pid"] for kind in ("worker", "triggerer") for p in await system.processes(kind)]
        address = await eventually(lambda: ready_line(system), every=0.1, why="the API server serves")
        postmaster = Place(system.home).postmaster()
        assert postmaster is not None
        database = [postmaster.pid, *children(postmaster.pid)]
        for pid in database:
            system.freeze(pid)
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            assert (await client.get("/ready")).status_code == 503
            health = (await client.get("/api/v2/monitor/health")).json()
            assert health == {"metadatabase": {"status": "unhealthy"}}
        await gone(owners)
        system.thaw(*database)
        (tmp_path / "go").touch()
        assert (await system.ended("waiting", run_id))["state"] == "success"
        await system.ready()
        await system.verify()


async def test_killed_database_is_started_again(tmp_path: Path) -> None:
    async with System(tmp_path, schedulers=2, triggerers=1) as system:
        system.write(MODULE, TRIGGER)
        await system.sound("lines_of.py", pipeline("lines_of", tmp_path / "lines"))
        await system.sound("pipeline.py", PIPELINE)
        place = Place(system.home)
        for round in (1, 2):
            append(tmp_path / "lines", f"before {round}")
            stored = await system.emit("orders", f"before {round}")
            postmaster = place.postmaster()
            assert postmaster is not None
            system.kill(postmaster.pid)
            append(tmp_path / "lines", f"after {round}")
            await gone([postmaster.pid])
            stored += await eventually(partial(system.emit, "orders", f"after {round}"), every=0.2)
            assert [s.status for s in stored] == ["stored", "stored"]
            await system.finished("report", 2 * round)
            await system.finished("lines_of", 2 * round)
        events = await system.events("lines_of")
        assert [e["key"] for e in events] == ["before 1", "after 1", "before 2", "after 2"]
        assert len(await system.runs("report")) == len(await system.runs("lines_of")) == 4
        await system.ready()
        await system.verify()


async def test_says_where_it_serves(tmp_path: Path, database_url: str) -> None:
    """airflow #65945: ready is said once it serves, and health tells of every kind of process."""
    async with System(tmp_path, database_url, schedulers=2, triggerers=1) as system:
        address = await eventually(lambda: ready_line(system), every=0.1, why="the API server serves")
        assert address.startswith("http://127.0.0.1:")
        async with httpx.AsyncClient(base_url=address) as client:
            health = (await client.get("/api/v2/monitor/health")).json()
            assert health["scheduler"]["status"] == "healthy"
            assert (await client.get("/api/v2/dags")).status_code == 401
            token = (system.home / "token").read_text().strip()
            headers = {"Authorization": f"Bearer {token}"}
            await system.sound("pipeline.py", PIPELINE)
            dags = (await client.get("/api/v2/dags", headers=headers)).json()
            assert {d["dag_id"] for d in dags["dags"]} == {"report", "waiting"}


def ready_line(system: System) -> str:
    """The address that `ready` names, once the line is there."""
    for line in system.output.read_text().splitlines():
        if line.startswith("ready "):
            return line.removeprefix("ready ")
    return ""
