"""How attempts of tasks may end, and what is recorded of each end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow.runtime.postgres import EmbeddedPostgres
from support import eventually
from system import System, shared

FATES = """
    import os
    import time
    from datetime import timedelta
    from pathlib import Path

    from onceflow import DAG, EmptyOperator, FailTask, SkipTask, task

    with DAG("succeeds"):
        @task
        def first():
            print("three rows")
            return {"rows": 3}

        @task
        def second(found, ti):
            return found["rows"] + ti.xcom_pull("first")["rows"]

        second(first())

    with DAG("raises"):
        @task
        def work():
            raise ValueError("no rows today")
        work() >> EmptyOperator(task_id="after")

    with DAG("recovers"):
        @task(retries=2, retry_delay=timedelta(seconds=0.3))
        def work(ti):
            print(f"this is try {ti.try_number}")
            if ti.try_number == 1:
                raise ValueError("not yet")
        work()

    with DAG("exhausts"):
        @task(retries=1, retry_delay=timedelta(seconds=0.1))
        def work():
            raise ValueError("never")
        work()

    with DAG("overruns"):
        @task(execution_timeout=timedelta(seconds=0.5))
        def work():
            time.sleep(60)
        work()

    with DAG("resists"):
        @task(execution_timeout=timedelta(seconds=0.5))
        def work():
            while True:
                try:
                    time.sleep(60)
                except BaseException:
                    print("not me")
        work()

    with DAG("waits"):
        @task
        def work(params, dag_run):
            folder = Path(dag_run.conf["folder"])
            (folder / "pid").write_text(str(os.getpid()))
            while not (folder / "go").exists():
                time.sleep(0.02)
        work()

    with DAG("exits"):
        @task
        def work():
            os._exit(3)
        work()

    with DAG("skips"):
        @task
        def work():
            raise SkipTask("nothing to do")
        work() >> EmptyOperator(task_id="after")

    with DAG("gives_up"):
        @task(retries=5)
        def work():
            raise FailTask("no use trying")
        work()

    with DAG("branches"):
        @task.branch
        def choose():
            return "left"
        join = EmptyOperator(task_id="join", trigger_rule="none_failed_min_one_success")
        choose() >> [EmptyOperator(task_id="left"), EmptyOperator(task_id="right")] >> join

    with DAG("stops_short"):
        @task.short_circuit
        def check():
            return False
        check() >> EmptyOperator(task_id="next") >> EmptyOperator(task_id="last")

    with DAG("isolated"):
        @task(isolation="fresh")
        def work():
            print("alone")
        work()
"""


@pytest.fixture(scope="module")
def system(
    module_database: str, pg_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    with shared(System(tmp_path_factory.mktemp("fates"), module_database, schedulers=2)) as system:
        system.write("fates.py", FATES)
        yield system


@pytest.fixture(autouse=True)
async def registered(system: System) -> None:
    await system.sound("fates.py", FATES)


async def fate(system: System, dag_id: str, conf: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
    """Run the DAG; how its run ended, and its tasks by id."""
    run = await system.run(dag_id, conf)
    return run["state"], {t["task_id"]: t for t in await system.tasks(dag_id, run["run_id"])}


def end_of(task: dict[str, Any]) -> tuple[Any, ...]:
    return task["state"], task["outcome"], task["attempt"]


async def test_success_hands_its_value_on(system: System) -> None:
    run = await system.run("succeeds")
    first, second = await system.json("tasks", "list", "succeeds", run["run_id"])
    assert run["state"] == "success"
    assert end_of(first) == end_of(second) == ("success", "success", 1)
    assert first["exit_code"] == 0 and first["error"] is None
    values = await system.sql("select value::text from xcom where task_id = 'second'")
    assert [v[0] for v in values] == ["6"]
    assert "three rows" in (await system.cli("tasks", "logs", "succeeds", run["run_id"], "first")).stdout


async def test_exception_fails_the_task_and_what_follows(system: System) -> None:
    state, tasks = await fate(system, "raises")
    assert state == "failed"
    assert end_of(tasks["work"]) == ("failed", "failed", 1)
    assert tasks["work"]["error"]["type"] == "ValueError"
    assert tasks["work"]["error"]["message"] == "no rows today"
    assert "in work" in tasks["work"]["error"]["traceback"]
    assert end_of(tasks["after"]) == ("upstream_failed", None, 0)


async def test_retry_after_its_delay_succeeds(system: System) -> None:
    run = await system.run("recovers")
    assert run["state"] == "success"
    first, second = await system.attempts("recovers", run["run_id"])
    assert (first["outcome"], second["outcome"]) == ("failed", "success")
    [waited] = await system.sql(
        "select $1::timestamptz - $2::timestamptz >= interval '0.3 s'",
        moment(second, "started"),
        moment(first, "finished"),
    )
    assert waited[0]
    for number, said in ((1, "not yet"), (2, "this is try 2")):
        shown = await system.cli("tasks", "logs", "recovers", run["run_id"], "work", "--attempt", str(number))
        assert said in shown.stdout and f"this is try {number}" in shown.stdout


def moment(attempt: dict[str, Any], name: str) -> Any:
    from onceflow.model.times import from_rfc3339

    return from_rfc3339(attempt[f"{name}_at"])


async def test_retries_run_out(system: System) -> None:
    state, tasks = await fate(system, "exhausts")
    assert state == "failed"
    assert end_of(tasks["work"]) == ("failed", "failed", 2)
    assert tasks["work"]["failures"] == 2


async def test_execution_timeout(system: System) -> None:
    state, tasks = await fate(system, "overruns")
    assert state == "failed"
    assert end_of(tasks["work"]) == ("failed", "timed_out", 1)
    assert "0.5" in tasks["work"]["error"]["message"]


async def test_execution_timeout_of_a_task_that_resists(system: System) -> None:
    state, tasks = await fate(system, "resists")
    assert state == "failed"
    assert end_of(tasks["work"]) == ("failed", "timed_out", 1)
    assert tasks["work"]["exit_code"] == -signal.SIGKILL
    assert "did not give in" in tasks["work"]["error"]["message"]


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_killed_from_outside(system: System, tmp_path: Path, signum: signal.Signals) -> None:
    run_id = await system.trigger("waits", {"folder": str(tmp_path)})
    os.kill(await pid_in(tmp_path), signum)
    run = await system.ended("waits", run_id)
    [task] = await system.tasks("waits", run_id)
    assert run["state"] == "failed"
    assert end_of(task) == ("failed", "killed", 1)
    assert task["exit_code"] == -signum
    assert signum.name in task["error"]["message"]


async def pid_in(folder: Path) -> int:
    """The process of the attempt that works in this folder."""
    path = folder / "pid"
    return int(await eventually(lambda: path.exists() and path.read_text(), why="the task runs"))


async def test_ends_its_process_itself(system: System) -> None:
    state, tasks = await fate(system, "exits")
    assert state == "failed"
    assert end_of(tasks["work"]) == ("failed", "crashed", 1)
    assert tasks["work"]["exit_code"] == 3


async def test_skip(system: System) -> None:
    state, tasks = await fate(system, "skips")
    assert state == "success"
    assert end_of(tasks["work"]) == ("skipped", "skipped", 1)
    assert tasks["work"]["error"]["message"] == "nothing to do"
    assert end_of(tasks["after"]) == ("skipped", None, 0)


async def test_failure_without_retry(system: System) -> None:
    state, tasks = await fate(system, "gives_up")
    assert state == "failed"
    assert end_of(tasks["work"]) == ("failed", "failed", 1)


async def test_branch(system: System) -> None:
    state, tasks = await fate(system, "branches")
    assert state == "success"
    assert {t: row["state"] for t, row in tasks.items()} == {
        "choose": "success",
        "left": "success",
        "right": "skipped",
        "join": "success",
    }


async def test_short_circuit(system: System) -> None:
    state, tasks = await fate(system, "stops_short")
    assert state == "success"
    assert {t: row["state"] for t, row in tasks.items()} == {"check": "success", "next": "skipped", "last": "skipped"}


async def test_fresh_interpreter(system: System) -> None:
    run = await system.run("isolated")
    assert run["state"] == "success"
    assert "alone" in (await system.cli("tasks", "logs", "isolated", run["run_id"], "work")).stdout
