"""The parse guest as a real process: good files, bad files, files that hang, crash or print."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow.guest.channel import recv, send
from onceflow.model.serialize import file_spec_from_json

HEAD = "from onceflow import *\n"
DAG_A = HEAD + 'with DAG("a"):\n    EmptyOperator(task_id="t")\n'


class Guest:
    """A running parse guest and its DAG folder."""

    folder: Path

    def __init__(self, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "onceflow.parse.load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | environment,
        )

    def parse(self, text: str | bytes, name: str = "file.py", timeout: float = 20) -> dict[str, Any]:
        """Write the file and parse it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).lstrip().encode())
        return self.ask(name, timeout)

    def ask(self, name: str, timeout: float = 20) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        send(self.process.stdin.fileno(), {"path": name, "folder": str(self.folder), "timeout": timeout})
        return recv(self.process.stdout.fileno())

    def close(self) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(10)


@pytest.fixture(scope="module")
def running() -> Iterator[Guest]:
    started = Guest()
    yield started
    assert started.close() == 0


@pytest.fixture
def guest(running: Guest, tmp_path: Path) -> Guest:
    running.folder = tmp_path
    return running


def test_a_file_becomes_a_spec(guest: Guest) -> None:
    reply = guest.parse(
        """
        from onceflow import DAG, Asset, task

        orders = Asset("orders")
        unused = Asset("unused")

        @task(outlets=[Asset("sums")])
        def add(): ...

        with DAG("etl", schedule=orders, pool="x" if False else None) if False else DAG("etl", schedule=orders) as made:
            add()
        """,
        "team/etl.py",
    )
    assert reply["kind"] == "file"
    spec = file_spec_from_json(reply)
    assert (spec.path, [d.dag_id for d in spec.dags], spec.warnings, spec.starts_threads) == (
        "team/etl.py",
        ["etl"],
        (),
        False,
    )
    assert [asset.name for asset in spec.assets] == ["orders", "sums", "unused"]
    assert (spec.dags[0].file, spec.dags[0].where, spec.dags[0].tasks[0].where) == (
        "team/etl.py",
        "team/etl.py:9",
        "team/etl.py:10",
    )
    assert guest.ask("team/etl.py")["source_hash"] == spec.source_hash


def test_a_dag_that_is_made_and_not_kept(guest: Guest) -> None:
    """It would be missed without a word; where the file defines others, too, it is a warning."""
    dropped = HEAD + "DAG('lost', schedule=Asset('a'))\n"
    reply = guest.parse(dropped)
    assert (reply["kind"], reply["where"]) == ("failure", "file.py:2")
    assert "'lost' is made and not kept" in reply["message"] and "dag = DAG(...)" in reply["remedy"]
    spec = file_spec_from_json(guest.parse(dropped + "kept = DAG('kept')\nDAG('hidden', auto_register=False)\n"))
    assert [d.dag_id for d in spec.dags] == ["kept"]
    [warning] = spec.warnings
    assert warning.startswith("file.py:2: DAG 'lost' is made and not kept")


@pytest.mark.parametrize(
    ("text", "code", "where", "words"),
    [
        (HEAD + "with DAG('a')\n    pass\n", "syntax_error", "file.py:2", "SyntaxError"),
        (HEAD + "DAG('a')\n  x = 1\n", "syntax_error", "file.py:3", "IndentationError"),
        (HEAD + "DAG('a')\n1 / 0\n", "raised", "file.py:3", "ZeroDivisionError: division by zero"),
        (HEAD + "DAG('a')\nimport no_such_module\n", "import_error", "file.py:3", "no_such_module"),
        (HEAD + "from onceflow import DAGG\n", "import_error", "file.py:2", "DAGG"),
        (HEAD + "DAG('a', schedule='@sometimes')\n", "bad_dag", "file.py:2", "@sometimes"),
        (HEAD + "DAG('a', max_activ_runs=1)\n", "bad_dag", "file.py:2", "max_activ_runs"),
        (
            HEAD + "with DAG('a'):\n    x = EmptyOperator(task_id='x')\n    x >> EmptyOperator(task_id='y') >> x\n",
            "bad_dag",
            "file.py:3",
            "cycle: x >> y >> x",
        ),
        (
            HEAD + "with DAG('a'):\n    EmptyOperator(task_id='x')\n    EmptyOperator(task_id='x')\n",
            "bad_dag",
            "file.py:4",
            "two tasks named 'x' (first at file.py:3)",
        ),
        (
            HEAD + "class T: ...\n\nAsset('x', watchers=[AssetWatcher(name='w', trigger=T())])\nDAG('a')\n",
            "bad_dag",
            "file.py:4",
            "no event trigger",
        ),
        (HEAD + "with DAG('a'): ...\nwith DAG('a'): ...\n", "bad_dag", "file.py:3", "two DAGs are named 'a'"),
        (HEAD + "a = Asset('a', uri='x:y')\nb = Asset('b', uri='x:y')\nDAG('d')\n", "bad_dag", "file.py:3", "one URI"),
        (HEAD + "DAG('a')\nraise SystemExit(3)\n", "raised", "file.py:3", "SystemExit: 3"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(guest: Guest, text: str, code: str, where: str, words: str) -> None:
    reply = guest.parse(text)
    assert (reply["kind"], reply["code"], reply["where"]) == ("failure", code, where)
    assert words in reply["message"]
    assert str(guest.folder) not in reply["message"] + reply["where"]
    assert "onceflow/parse" not in reply["traceback"]


def test_what_mentions_neither_dags_nor_assets_is_not_executed(guest: Guest) -> None:
    """The rule of Airflow's safe mode: a helper is nobody's DAG, and a file of nothing but `@asset` is one."""
    assert guest.parse("raise RuntimeError('onceflow helper')\n")["kind"] == "file"
    made = guest.parse("from airflow.sdk import asset\n\n@asset(schedule=None)\ndef daily():\n    return 1\n")
    assert [dag.dag_id for dag in file_spec_from_json(made).dags] == ["daily"]


def test_an_error_in_an_imported_file_is_told_at_its_line(guest: Guest) -> None:
    guest.parse("x = 1\n\nraise RuntimeError('helper')\n", "helpers.py")
    reply = guest.parse("import helpers\n" + DAG_A)
    assert (reply["where"], reply["message"]) == ("helpers.py:3", "RuntimeError: helper")


@pytest.mark.parametrize(
    "body", ["while True: pass\n", "import time\ntime.sleep(60)\n", "import re\nre.match('(a+)+$', 'a' * 60 + 'b')\n"]
)
def test_a_file_that_takes_too_long_is_ended_at_its_line(guest: Guest, body: str) -> None:
    reply = guest.parse(DAG_A + body, timeout=0.5)
    assert (reply["kind"], reply["code"]) == ("failure", "parse_timeout")
    assert reply["message"] == "loading the file took longer than 0.5 s"
    assert reply["where"] == f"file.py:{4 if 'True' in body else 5}"
    assert guest.parse(DAG_A)["kind"] == "file"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import os\nos._exit(7)\n", "exit code 7"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "SIGSEGV"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n", "SIGTERM"),
    ],
)
def test_a_file_that_ends_its_process_is_a_failure_like_any_other(guest: Guest, body: str, words: str) -> None:
    reply = guest.parse(DAG_A + "print('last words')\n" + "import sys; sys.stdout.flush()\n" + body)
    assert (reply["kind"], reply["code"], reply["path"]) == ("failure", "parse_crash", "file.py")
    assert words in reply["message"] and "last words" in reply["traceback"]
    assert guest.parse(DAG_A)["kind"] == "file"


def test_what_a_file_prints_stays_out_of_the_protocol(guest: Guest) -> None:
    noise = "import os, sys\nprint('x' * 100000)\nos.write(1, b'raw')\nprint('y', file=sys.stderr)\n"
    assert guest.parse(DAG_A + noise)["kind"] == "file"


def test_a_running_thread_is_noticed(guest: Guest) -> None:
    thread = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    assert guest.parse(DAG_A + thread)["starts_threads"] is True
    assert guest.parse(DAG_A)["starts_threads"] is False


def test_files_that_do_not_mention_dags_are_not_executed(guest: Guest) -> None:
    for text in ("raise RuntimeError", "import onceflow\nraise RuntimeError", "", b"\xff\xfe\x00"):
        reply = guest.parse(text)
        assert (reply["kind"], reply["dags"]) == ("file", [])


def test_a_missing_file_is_a_failure(guest: Guest) -> None:
    reply = guest.ask("gone.py")
    assert (reply["kind"], reply["code"], reply["where"]) == ("failure", "unreadable", "gone.py")


def test_bytes_that_are_no_text_are_a_failure(guest: Guest) -> None:
    reply = guest.parse(b"# dag onceflow\nx = '\xff'\n")
    assert (reply["kind"], reply["code"]) == ("failure", "syntax_error")


def test_files_of_the_folder_import_each_other_and_keep_their_dags(guest: Guest) -> None:
    guest.parse("def double(x):\n    return 2 * x\n", "helpers.py")
    guest.parse(DAG_A.replace('"a"', '"theirs"') + "def make(dag_id):\n    return DAG(dag_id)\n", "other.py")
    reply = guest.parse(
        HEAD + "# a dag\nimport helpers\nfrom other import *\nimport other\nmade = other.make('mine')\n"
    )
    assert [d["dag_id"] for d in reply["dags"]] == ["mine"]


def test_a_trigger_of_a_dag_file_can_be_found_again(guest: Guest) -> None:
    text = """
    from onceflow import DAG, Asset, AssetWatcher, BaseEventTrigger, TriggerEvent

    class Rows(BaseEventTrigger):
        def __init__(self, table):
            self.table = table

        def serialize(self):
            return f"{__name__}.Rows", {"table": self.table}

        async def run(self):
            yield TriggerEvent({}, cursor=1)

    rows = Asset("rows", watchers=[AssetWatcher(name="w", trigger=Rows("t"))])
    d = DAG("d", schedule=rows)
    """
    for name, module in (("team/rows.py", "team.rows"), ("json.py", "dag_json"), ("my-rows.v2.py", "my-rows_v2")):
        [asset] = guest.parse(text, name)["assets"]
        [watcher] = asset["watchers"]
        assert (watcher["classpath"], watcher["file"]) == (f"{module}.Rows", name)
        loads = "from onceflow.guest.loader import load_class; import sys; print(load_class(*sys.argv[1:])('t').table)"
        arguments = [sys.executable, "-c", loads, watcher["classpath"], watcher["file"], str(guest.folder)]
        found = subprocess.run(arguments, capture_output=True, text=True)
        assert found.stdout == "t\n", found.stderr


def test_the_guest_serves_many_files_in_order_from_one_warm_state(guest: Guest) -> None:
    for number in range(20):
        [made] = guest.parse(DAG_A.replace('"a"', f'"dag_{number}"'), f"f{number}.py")["dags"]
        assert made["dag_id"] == f"dag_{number}"
