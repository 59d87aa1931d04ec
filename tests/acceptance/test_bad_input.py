"""What people get wrong, and that each is told with its place and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceflow.runtime.postgres import EmbeddedPostgres
from support import eventually
from system import System, shared

SYNTAX = """
    from onceflow import DAG

    with DAG("broken"
        pass
"""
CYCLE = """
    from onceflow import DAG, EmptyOperator

    with DAG("circle"):
        a, b, c = (EmptyOperator(task_id=t) for t in "abc")
        a >> b >> c
        c >> a
"""
DUPLICATE = """
    from onceflow import DAG, EmptyOperator

    with DAG("twice"):
        EmptyOperator(task_id="load")
        EmptyOperator(task_id="load")
"""
SCHEDULE = """
    from onceflow import DAG

    DAG("odd", schedule="@fortnightly")
"""
NO_EVENT_TRIGGER = """
    from onceflow import DAG, Asset, AssetWatcher, BaseTrigger

    class Once(BaseTrigger):
        def serialize(self):
            return "no_event_trigger.Once", {}

        async def run(self):
            yield 1

    DAG("watching", schedule=Asset("source", watchers=[AssetWatcher("w", trigger=Once())]))
"""
RAISES = """
    from onceflow import DAG

    def settings():
        raise KeyError("the setting 'bucket' is missing")

    DAG(settings())
"""
MISSING_MODULE = """
    from onceflow import DAG
    import pandsa

    DAG("spelled")
"""
UNKNOWN_ARGUMENT = """
    from onceflow import DAG, EmptyOperator

    with DAG("argued"):
        EmptyOperator(task_id="a", retry=3)
"""
EXITS = """
    import os
    from onceflow import DAG

    os._exit(4)
"""

NUL = """
    from onceflow import DAG

    dag = DAG("nul", description="a\\0b")
"""
HALF = """
    from onceflow import DAG, Asset

    dag = DAG("half", schedule=Asset("a\\ud800"))
"""
UNSPEAKABLE = """
    from onceflow import DAG

    class Odd(Exception):
        def __str__(self):
            raise ValueError("a\\0")

    raise Odd
"""
CLOSES = """
    import os
    from onceflow import DAG

    os.closerange(3, 100)
"""

# file, text, where, what the message says, what the remedy says
FILES = [
    ("syntax.py", SYNTAX, "syntax.py:4", "'(' was never closed", ""),
    ("cycle.py", CYCLE, "cycle.py:", "cycle", ""),
    ("duplicate.py", DUPLICATE, "duplicate.py:6", "load", "task_id"),
    ("schedule.py", SCHEDULE, "schedule.py:4", "@fortnightly", "@once, @continuous, @hourly"),
    ("no_event_trigger.py", NO_EVENT_TRIGGER, "no_event_trigger.py:", "Once", "BaseEventTrigger"),
    ("raises.py", RAISES, "raises.py:5", "bucket", ""),
    ("missing.py", MISSING_MODULE, "missing.py:3", "pandsa", ""),
    ("argument.py", UNKNOWN_ARGUMENT, "argument.py:5", "retry", "retries"),
    ("exits.py", EXITS, "exits.py", "exit code 4", "must not end the process"),
    ("nul.py", NUL, "nul.py:4", "description of DAG 'nul' holds a NUL character", "leave it out"),
    ("half.py", HALF, "half.py:4", "half of a surrogate pair", "leave it out"),
    ("unspeakable.py", UNSPEAKABLE, "unspeakable.py:8", "Odd: (its message cannot be shown", ""),
    ("closes.py", CLOSES, "closes.py", "closed the pipe", "must not close file descriptors"),
]


@pytest.fixture(scope="module")
def system(
    module_database: str, pg_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    with shared(System(tmp_path_factory.mktemp("bad"), module_database, workers=0)) as system:
        yield system


async def test_each_bad_file_is_told_with_place_and_remedy(system: System) -> None:
    """airflow #47830, #64659: a file that cannot be read is told, and keeps no other from being read."""
    for name, text, *_ in FILES:
        system.write(name, text)
    await system.sound("good.py", "from onceflow import DAG\ndag = DAG('good')\n")
    await eventually(lambda: told(system, len(FILES)), every=0.1, why="all of them are told")
    errors = {e["path"]: e["failure"] for e in await system.json("dags", "errors")}
    assert errors.keys() == {name for name, *_ in FILES}
    for name, _, where, message, remedy in FILES:
        failure = errors[name]
        assert failure["where"].startswith(where), failure
        assert message in failure["message"], failure
        assert remedy in failure["remedy"], failure
    assert set(await system.dag_ids()) <= {"good", "mine", "beside", "after"}
    shown = (await system.cli("dags", "errors")).stdout
    assert all(where.rstrip(":") in shown for _, _, where, *_ in FILES)


async def test_no_dag_file_at_all_keeps_none_from_being_read(system: System) -> None:
    odd = {"loop.py": "symbolic links", "pipe.py": "no regular file", r"b\udcff.py": "not valid UTF-8"}
    (system.dags / "loop.py").symlink_to("loop.py")
    os.mkfifo(system.dags / "pipe.py")
    Path(os.fsdecode(os.fsencode(system.dags) + b"/b\xff.py")).write_text("")
    await system.sound("beside.py", "from onceflow import DAG\ndag = DAG('beside')\n")

    async def all_told() -> bool:
        found = {e["path"]: e["failure"]["message"] for e in await system.errors()}
        return all(message in found.get(path, "") for path, message in odd.items())

    async def no_more() -> bool:
        return not odd.keys() & {e["path"] for e in await system.errors()}

    await eventually(all_told, every=0.1, why="each is told")
    for path in list(system.dags.iterdir()):
        if path.name in {"loop.py", "pipe.py"} or path.name.startswith("b\udcff"):
            path.unlink()
    await eventually(no_more, every=0.1, why="they are gone")
    await system.sound("after.py", "from onceflow import DAG\ndag = DAG('after')\n")


async def told(system: System, count: int) -> bool:
    return len(await system.errors()) == count


async def test_two_files_with_one_dag_id_are_told_with_both_places(system: System) -> None:
    await system.sound("first.py", "from onceflow import DAG\ndag = DAG('mine')\n")
    known = await system.register("second.py", "from onceflow import DAG\n\ndag = DAG('mine')\n")
    assert known.failure is not None
    assert "first.py" in known.failure["message"]
    assert known.failure["where"] == "second.py:3"
    (system.dags / "first.py").unlink()
    await eventually(lambda: mended(system), every=0.1, why="the second file may have the name now")
    (system.dags / "second.py").unlink()


async def mended(system: System) -> bool:
    return (await system.dag("mine"))["file"] == "second.py" and "second.py" not in {
        e["path"] for e in await system.errors()
    }


async def test_unknown_settings_are_refused_with_the_valid_ones(system: System, tmp_path: Path) -> None:
    """airflow #32121: a setting that cannot be right is refused."""
    named = await system.cli("processes", environment={"ONCEFLOW_LEASE_SECOND": "3"})
    assert named.returncode == 2
    assert "ONCEFLOW_LEASE_SECOND" in named.stderr and "did you mean ONCEFLOW_LEASE_SECONDS?" in named.stderr
    valued = await system.cli("processes", environment={"ONCEFLOW_LEASE_SECONDS": "soon"})
    assert valued.returncode == 2 and "lease_seconds is 'soon'" in valued.stderr
    home = tmp_path / "home"
    home.mkdir()
    (home / "onceflow.toml").write_text("schedulars = 3\n")
    filed = await system.cli("standalone", home=home)
    assert filed.returncode == 2
    assert "onceflow.toml" in filed.stderr and "schedulers" in filed.stderr


async def test_commands_name_what_they_do_not_know(system: System) -> None:
    await system.sound("good.py", "from onceflow import DAG\ndag = DAG('good')\n")
    for arguments, code, said in (
        (("dags", "trigger", "goood"), 1, "good"),
        (("assets", "emit", "nothing"), 1, "there is no asset 'nothing'"),
        (("dags", "trigger", "good", "--conf", "{bad"), 2, "JSON"),
        (("runs", "show", "good", "never"), 1, "never"),
        (("why", "event", "999"), 1, "999"),
    ):
        done = await system.cli(*arguments)
        assert (done.returncode, said in done.stderr) == (code, True), (arguments, done.returncode, done.stderr)


async def test_commands_without_a_system_say_how_to_start_one(system: System, tmp_path: Path) -> None:
    done = await system.cli("runs", "list", home=tmp_path / "nothing", environment={"ONCEFLOW_DATABASE_URL": ""})
    assert done.returncode == 3
    assert "onceflow standalone" in done.stderr
