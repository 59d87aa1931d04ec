"""`assets emit`: one change, many changes, changes that are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from onceflow.model.limits import EXTRA_LIMIT, KEY_LIMIT
from people import World, listed, onceflow
from support import eventually


@pytest.fixture
async def world(world: World) -> World:
    await world.dag("report", ["or", [["asset", "orders"], ["asset", "prices"]]])
    await world.asset("stock", "s3://stock")
    return world


async def test_one_change(world: World, database_url: str) -> None:
    command = ("assets", "emit", "orders", "--key", "a", "--extra", '{"rows": 3}')
    assert "stored: event 1" in onceflow(database_url, *command).stdout
    again = json.loads(onceflow(database_url, *command, "-o", "json").stdout)
    assert again == {"asset": "orders", "key": "a", "event_id": 1, "status": "duplicate", "flaw": None}
    assert "known already: event 1" in onceflow(database_url, *command).stdout
    [event] = listed(database_url, "events", "list")
    assert event["extra"] == {"rows": 3} and event["witnesses"] == 3
    assert event["source"]["kind"] == "cli"


async def test_by_uri(world: World, database_url: str) -> None:
    """airflow #53615: an asset is also known by its URI."""
    assert onceflow(database_url, "assets", "emit", "s3://stock").returncode == 0
    [event] = listed(database_url, "events", "list")
    assert event["asset"] == "stock" and event["key"] is None and event["extra"] == {}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nothing",), 1, "there is no asset 'nothing'"),
        (("orders", "--key", ""), 2, "the key is empty"),
        (("orders", "--key", "k" * (KEY_LIMIT + 1)), 2, f"the limit is {KEY_LIMIT}"),
        (("orders", "--extra", "{"), 2, "not valid JSON"),
        (("orders", "--extra", '{"a": NaN}'), 2, "NaN is not JSON"),
        ((), 2, "name an asset"),
        (("orders", "--key", "a", "--from", "-"), 2, "belong to one change"),
    ],
)
async def test_refused(world: World, database_url: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = onceflow(database_url, "assets", "emit", *arguments)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert listed(database_url, "events", "list") == []


async def test_lines(world: World, database_url: str) -> None:
    """Repeats of a key, within a batch and over several, are witnesses; every line is answered, in order."""
    lines = [{"key": str(n % 1000), "extra": {"n": n}} for n in range(1200)] + [
        {"asset": "prices"},
        {"asset": "prices"},
    ]
    text = "\n".join(map(json.dumps, lines)) + "\n\n"
    done = onceflow(database_url, "assets", "emit", "orders", "--from", "-", "-o", "json", given=text)
    answers = json.loads(done.stdout)
    assert [a["line"] for a in answers] == list(range(1, 1203))
    assert [a["status"] for a in answers] == ["stored"] * 1000 + ["duplicate"] * 200 + ["stored"] * 2
    assert "1002 stored, 200 known already" in done.stderr
    assert {a["flaw"] for a in answers} == {None}
    events = listed(database_url, "events", "list")
    assert len(events) == 1002 and sum(e["witnesses"] for e in events) == 1202
    assert all(len(e["deliveries"]) == 1 for e in events)
    assert listed(database_url, "verify")["ok"]


async def test_lines_that_break_the_contract_or_mend_it(world: World, database_url: str) -> None:
    """What is stored and held, and what lets it go on, is told of each line and in sum."""
    await world.sql.execute("""update asset set rules = '{"schema": {"required": ["n"]}}' where name = 'orders'""")
    text = '{"key": "a"}\n{"key": "b", "extra": {"n": 1}}\n{"key": "a", "extra": {"n": 1}}\n'
    done = onceflow(database_url, "assets", "emit", "orders", "--from", "-", "-o", "json", given=text)
    assert [(a["status"], bool(a["flaw"])) for a in json.loads(done.stdout)] == [
        ("stored", True),
        ("stored", False),
        ("released", False),
    ]
    assert "2 stored, 0 known already, 1 let one go on that was in quarantine, 1 quarantined" in done.stderr


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("{", 2, "line 3: not valid JSON"),
        ("[1]", 2, "line 3: not a JSON object"),
        ('{"kee": "a"}', 2, "line 3: unknown field 'kee'"),
        ('{"key": 7}', 2, "line 3: the key is a int"),
        ('{"asset": "nothing"}', 1, "line 3: there is no asset 'nothing'"),
        ('{"asset": null}', 2, "line 3: no asset is named"),
        (json.dumps({"extra": "x" * EXTRA_LIMIT}), 2, "line 3: the extra has"),
        ('{"extra": "\\ud800"}', 0, ""),
        ("[" * 100_000, 2, "line 3: not valid JSON"),
    ],
)
async def test_a_bad_line_is_named_and_what_stood_before_it_stays(
    world: World, database_url: str, line: str, code: int, said: str
) -> None:
    text = '{"key": "a"}\n{"key": "b"}\n' + line + '\n{"key": "c"}\n'
    done = onceflow(database_url, "assets", "emit", "orders", "--from", "-", "-o", "json", given=text)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    stored = 2 if code else 4
    assert f"{stored} stored" in done.stderr
    assert len(json.loads(done.stdout)) == stored
    assert len(listed(database_url, "events", "list")) == stored


async def test_lines_are_stored_as_they_come(world: World, database_url: str) -> None:
    """A program that writes a line and waits need not fill a batch."""
    with subprocess.Popen(
        [sys.executable, "-m", "onceflow.cli.main", "assets", "emit", "orders", "--from", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"ONCEFLOW_DATABASE_URL": database_url},
    ) as process:
        assert process.stdin and process.stdout
        for count in (1, 2):
            process.stdin.write(b"{}\n")
            process.stdin.flush()
            await eventually(lambda count=count: counted(world, count))
        process.stdin.close()
        assert b"2 stored" in process.stdout.read()
    assert process.returncode == 0


async def counted(world: World, count: int) -> bool:
    return await world.sql.fetchval("select count(*) from event") == count
