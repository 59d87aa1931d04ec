"""What people do by command: trigger, pause, read logs, prepare the database; and how commands fail."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from onceflow.runtime.logs import attempt_log
from onceflow.runtime.postgres import EmbeddedPostgres
from people import World, listed, onceflow
from support import eventually, with_database

ORDERS = ["asset", "orders"]


async def test_trigger(world: World, database_url: str) -> None:
    await world.dag("report", params={"n": 1}, param_schemas={"n": {"type": "integer", "minimum": 0}})
    done = onceflow(database_url, "dags", "trigger", "report", "--conf", '{"n": 5, "other": "x"}')
    assert done.returncode == 0 and done.stderr == ""
    [run] = listed(database_url, "runs", "list")
    assert run["run_id"] == done.stdout.strip() and run["run_id"].startswith("manual__")
    assert (run["run_type"], run["state"], run["conf"], run["events"]) == (
        "manual",
        "queued",
        {"n": 5, "other": "x"},
        [],
    )
    assert run["created_by"]["kind"] == "cli"
    slot = ("dags", "trigger", "report", "--logical-date", "2026-01-31")
    assert onceflow(database_url, *slot).returncode == 0
    again = onceflow(database_url, *slot)
    assert again.returncode == 1 and "2026-01-31T00:00:00.000000Z already" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nothing",), 1, "there is no DAG 'nothing'"),
        (("report", "--conf", "{"), 2, "not valid JSON"),
        (("report", "--conf", "[1]"), 2, "a JSON object is needed"),
        (("report", "--conf", '{"n": "x"}'), 2, "conf.n: parameter 'n' is 'x'"),
        (("report", "--conf", '{"n": -1}'), 2, "0 or more"),
        (("report", "--logical-date", "soon"), 2, "'soon' is not a time"),
        (("report", "--logical-date", "9999-12-31T23:59:59-14:00"), 2, "is not a time"),
        (("\udcff",), 2, "the database refuses an argument"),
    ],
)
async def test_trigger_refused(
    world: World, database_url: str, *, arguments: tuple[str, ...], code: int, said: str
) -> None:
    await world.dag("report", params={"n": 1}, param_schemas={"n": {"type": "integer", "minimum": 0}})
    done = onceflow(database_url, "dags", "trigger", *arguments)
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert listed(database_url, "runs", "list") == []


async def test_pausing(world: World, database_url: str) -> None:
    """airflow #49857: what was held while a DAG was paused is given back, once, when it is unpaused."""
    await world.dag("report", ORDERS)
    assert "report is paused" in onceflow(database_url, "dags", "pause", "report").stdout
    triggered = onceflow(database_url, "dags", "trigger", "report")
    assert triggered.returncode == 0 and "queued until `onceflow dags unpause report`" in triggered.stderr
    event = await world.emit("orders")
    await world.sql.execute("update delivery set disposition = 'held', reason = 'pause', judged = true")
    told = onceflow(database_url, "dags", "unpause", "report")
    assert "report is unpaused" in told.stdout and "1 events" in told.stdout
    delivery = await world.sql.fetchrow("select * from delivery")
    assert (delivery["event_id"], delivery["disposition"], delivery["judged"]) == (event, "pending", False)
    assert "events" not in onceflow(database_url, "dags", "unpause", "report").stdout
    assert onceflow(database_url, "dags", "pause", "nothing").returncode == 1


@pytest.mark.parametrize(
    ("pending", "said"),
    [("join", "1 events are pending again, for one run of all of them"), ("discard", "1 events were discarded")],
)
async def test_resuming_otherwise(world: World, database_url: str, pending: str, said: str) -> None:
    """What is done with the events that wait is recorded with who, when and why, and `why event` tells."""
    await world.dag("report", ORDERS)
    onceflow(database_url, "dags", "pause", "report", "--reason", "repairs")
    event = await world.emit("orders")
    held = listed(database_url, "why", "event", str(event))["deliveries"][0]["because"]
    assert "no scheduler is running" in held
    await world.judge("report")
    held = listed(database_url, "why", "event", str(event))["deliveries"][0]["because"]
    assert "by command paused it at" in held and "because: repairs" in held
    told = onceflow(database_url, "dags", "unpause", "report", "--pending", pending, "--reason", "a clean start")
    assert told.returncode == 0 and said in told.stdout, told
    await world.judge("report")
    because = listed(database_url, "why", "event", str(event))["deliveries"][0]["because"]
    assert f"resumed it with --pending {pending} at" in because and "because: a clean start" in because
    if pending == "join":
        [run] = listed(database_url, "runs", "list", "report")
        assert "one run of everything, because" in onceflow(database_url, "why", "run", "report", run["run_id"]).stdout
    refused = onceflow(database_url, "dags", "unpause", "report", "--pending", pending)
    assert refused.returncode == 1 and "is not paused" in refused.stderr and "Traceback" not in refused.stderr
    assert onceflow(database_url, "dags", "unpause", "report", "--pending", "some").returncode == 2


async def test_a_pause_says_that_events_will_be_discarded(world: World, database_url: str) -> None:
    """airflow #49857: what becomes of events meanwhile is shown."""
    await world.dag("report", ORDERS, while_paused="discard")
    assert "are discarded, as the DAG says" in onceflow(database_url, "dags", "pause", "report").stdout
    assert listed(database_url, "dags", "show", "report")["spec"]["while_paused"] == "discard"


async def test_other_reasons_to_hold_outlast_a_pause(world: World, database_url: str) -> None:
    await world.dag("report", ORDERS)
    await world.emit("orders")
    await world.sql.execute("update delivery set disposition = 'held', reason = 'unscheduled', judged = true")
    onceflow(database_url, "dags", "unpause", "report")
    assert await world.sql.fetchval("select disposition from delivery") == "held"


async def test_a_write_wakes_the_processes_that_wait(world: World, database_url: str) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    await world.dag("report", ORDERS)
    listener = await asyncpg.connect(database_url)
    try:
        for topic in ("delivery", "run", "dag"):
            await listener.add_listener(f"onceflow_{topic}", lambda *a: heard.put_nowait(a[2]))
        await asyncio.to_thread(onceflow, database_url, "assets", "emit", "orders")
        assert await asyncio.wait_for(heard.get(), 60) == "onceflow_delivery"
        await asyncio.to_thread(onceflow, database_url, "dags", "trigger", "report")
        assert {await asyncio.wait_for(heard.get(), 60) for _ in range(2)} == {"onceflow_run", "onceflow_dag"}
    finally:
        await listener.close()


async def test_logs(world: World, database_url: str, tmp_path: Path) -> None:
    await world.dag("report", ORDERS)
    await world.emit("orders")
    [run] = await world.judge("report")
    [waiting] = listed(database_url, "runs", "list")
    logs = ("--home", str(tmp_path), "tasks", "logs", "report", waiting["run_id"], "work")
    early = onceflow(database_url, *logs)
    assert early.returncode == 1 and "task 'work' has no attempt yet: the run is queued" in early.stderr
    task = await world.start(run)
    await world.sql.execute(
        "insert into task (run_id, task_no, task_id, state) values ($1, 9, 'other', 'skipped')", run
    )
    other = onceflow(database_url, *logs[:-1], "other")
    assert other.returncode == 1 and "task 'other' has no attempt: it is skipped" in other.stderr
    none = onceflow(database_url, *logs[:-1], "wrok")
    assert none.returncode == 1 and "the run has no task 'wrok'" in none.stderr
    absent = onceflow(database_url, *logs)
    assert absent.returncode == 1 and "not on this machine" in absent.stderr
    log = Path(attempt_log(tmp_path, run, task, 1))
    log.parent.mkdir(parents=True)
    log.write_bytes("first\nzwölf\n".encode() * 50_000)
    assert onceflow(database_url, *logs).stdout == "first\nzwölf\n" * 50_000
    assert onceflow(database_url, *logs, "--attempt", "1").returncode == 0
    other = onceflow(database_url, *logs, "--attempt", "2")
    assert other.returncode == 1 and "it has 1" in other.stderr


async def test_verify_says_what_is_wrong(world: World, database_url: str) -> None:
    await world.dag("report", ORDERS)
    await world.emit("orders")
    good = onceflow(database_url, "verify")
    assert good.returncode == 0 and "ok: " in good.stdout
    result = listed(database_url, "verify")
    assert (result["ok"], result["events"], result["deliveries"], result["by_disposition"], result["violations"]) == (
        *(True, 1, 1, {"pending": 1}, []),
    )
    await world.sql.execute("delete from delivery")
    bad = onceflow(database_url, "verify", "-o", "json")
    result = json.loads(bad.stdout)
    assert bad.returncode == 1 and not result["ok"]
    [violation] = result["violations"]
    assert violation["kind"] == "event_without_delivery"
    assert (violation["event"], violation["dag_id"]) == (1, "report")
    told = onceflow(database_url, "verify")
    assert told.returncode == 1 and "VIOLATION event_without_delivery" in told.stdout


async def test_migrate_and_check(empty_database_url: str) -> None:
    before = onceflow(empty_database_url, "db", "check", "-o", "json")
    assert before.returncode == 1 and "onceflow db migrate" in json.loads(before.stdout)["problems"][0]
    refused = onceflow(empty_database_url, "events", "list")
    assert refused.returncode == 1 and "onceflow db migrate" in refused.stderr
    first = onceflow(empty_database_url, "db", "migrate")
    assert first.returncode == 0 and "applied 0001_model" in first.stdout
    assert "up to date" in onceflow(empty_database_url, "db", "migrate").stdout
    after = onceflow(empty_database_url, "db", "check", "-o", "json")
    checked = json.loads(after.stdout)
    assert after.returncode == 0 and checked["ok"] and checked["schema"] == checked["schema_wanted"]
    assert (checked["fsync"], checked["synchronous_commit"]) == ("on", "on")


async def test_a_database_that_may_lose_commits_is_refused(world: World, database_url: str) -> None:
    name = await world.sql.fetchval("select current_database()")
    await world.sql.execute(f'alter database "{name}" set synchronous_commit = off')
    done = onceflow(database_url, "db", "check")
    assert done.returncode == 1 and "synchronous_commit is off" in done.stdout and "not ok" in done.stdout


def test_nothing_runs_here(tmp_path: Path) -> None:
    for command in (["events", "list"], ["verify"], ["scheduler"], ["db", "check"], ["why", "event", "1"]):
        done = onceflow("", "--home", str(tmp_path), *command)
        assert done.returncode == 3, done.stderr
        assert "onceflow standalone" in done.stderr and "Traceback" not in done.stderr


def test_the_database_does_not_answer(pg_server: EmbeddedPostgres) -> None:
    done = onceflow("postgresql://nobody@127.0.0.1:1/x", "events", "list")
    assert done.returncode == 3 and "does not answer" in done.stderr and "start it" in done.stderr


async def test_the_database_lets_nobody_in(pg_server: EmbeddedPostgres, database_url: str) -> None:
    """It answers, so it need not be started: the remedy is that of its answer."""
    password = urlsplit(database_url).password
    assert password
    sql = await asyncpg.connect(pg_server.url)
    await sql.execute(f"alter database {urlsplit(database_url).path[1:]} connection limit 0")
    await sql.close()
    for url, remedy in (
        (database_url, "raise its max_connections"),
        (with_database(database_url, "missing"), "create this database"),
        (database_url.replace(password, "wrong"), "correct the password"),
    ):
        for command in (["events", "list"], ["db", "migrate"]):
            done = await asyncio.to_thread(onceflow, url, *command)
            assert done.returncode == 3 and "lets nobody in" in done.stderr, done.stderr
            assert remedy in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_the_running_embedded_server_is_found(pg_server: EmbeddedPostgres, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    made = onceflow("", "--home", home, "db", "migrate")
    assert made.returncode == 0, made.stderr
    assert onceflow("", "--home", home, "verify").returncode == 3  # `db migrate` has stopped it again
    with EmbeddedPostgres(Path(home)):
        assert listed("", "--home", home, "verify")["ok"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("events", "list", "--limit", "0"), "--limit"),
        (("events", "list", "-o", "xml"), "'xml' is not one of"),
        (("why", "event", "x"), "not a valid integer"),
        (("events", "list", "--since", "soon"), "is not a time"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], said: str) -> None:
    done = onceflow("", *arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    done = onceflow("", "events", "list", ONCEFLOW_PROT="1")
    assert done.returncode == 2 and "unknown setting 'ONCEFLOW_PROT'" in done.stderr and "ONCEFLOW_PORT" in done.stderr


def test_every_command_has_help() -> None:
    from onceflow.cli.main import COMMANDS

    listed_help = onceflow("", "--help")
    assert listed_help.returncode == 0
    for name in COMMANDS:
        assert name in listed_help.stdout
        assert onceflow("", name, "--help").returncode == 0


def test_help_loads_neither_driver_nor_web_framework() -> None:
    code = (
        "import sys\n"
        "from onceflow.cli.main import cli\n"
        "try: cli(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'asyncpg', 'fastapi', 'rich', 'uvicorn', 'pydantic'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


async def test_a_reader_that_goes_away(world: World, database_url: str) -> None:
    """`onceflow events list | head` ends quietly."""
    await world.asset("orders")
    lines = "{}\n" * 5000
    assert onceflow(database_url, "assets", "emit", "orders", "--from", "-", given=lines).returncode == 0
    command = [sys.executable, "-m", "onceflow.cli.main", "events", "list", "-o", "json"]
    env = os.environ | {"ONCEFLOW_DATABASE_URL": database_url}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdout and process.stderr
        assert process.stdout.readline() == b"[\n"
        process.stdout.close()
        assert process.stderr.read() == b""


async def test_api_server(world: World, database_url: str, tmp_path: Path) -> None:
    """The real process: serves on a free port, keeps the token private, wakes others, ends when told."""
    await world.dag("report", ORDERS)
    home = tmp_path / "home"
    env = os.environ | {"ONCEFLOW_DATABASE_URL": database_url, "ONCEFLOW_LEASE_SECONDS": "2"}
    command = [sys.executable, "-m", "onceflow.cli.main", "--home", str(home), "api-server", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True) as process:
        try:
            assert process.stdout
            ready, _, address = (await asyncio.to_thread(process.stdout.readline)).strip().partition(" ")
            assert ready == "ready" and address.startswith("http://127.0.0.1:")
            token = (home / "token").read_text().strip()
            async with httpx.AsyncClient(base_url=address) as client:
                assert (await client.get("/ready")).json() == {"status": "ready"}
                assert (await client.get("/api/v2/dags")).status_code == 401
                client.headers["Authorization"] = f"Bearer {token}"
                assert (await client.get("/api/v2/dags")).json()["total_entries"] == 1
                made = await client.post("/api/v2/assets/events", json={"name": "orders", "key": "a"})
                assert made.json()["status"] == "stored"
                too_much = await client.post("/api/v2/assets/events", content=b"x" * (2 << 20))
                assert too_much.status_code == 413
            [server] = listed(database_url, "processes", "--kind", "api-server")
            assert server["parent_pid"] == process.pid and server["state"] == "running"
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 10) == 0
        finally:
            process.kill()
    await eventually(lambda: listed(database_url, "processes")[0]["state"] == "stopped")


async def test_verify_beside_production(world: World, database_url: str) -> None:
    """`verify --watch` makes pass after pass, tells a violation once, and its exit code says whether there was any."""
    await world.dag("report", ORDERS)
    command = [sys.executable, "-m", "onceflow.cli.main", "verify", "--watch", "--every", "1"]
    env = os.environ | {"ONCEFLOW_DATABASE_URL": database_url}
    watch = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=env)
    try:
        assert watch.stdout is not None
        async with asyncio.timeout(60):
            first = await watch.stdout.readline()
            assert b"0 events, 0 runs; ok: " in first
            await world.emit("orders", "a")
            await world.sql.execute("delete from delivery")
            while not (line := await watch.stdout.readline()).startswith(b"VIOLATION"):
                assert b"; ok: " in line
            assert line.startswith(b"VIOLATION event_without_delivery: G7")
            told = [await watch.stdout.readline() for _ in range(3)]
            assert b'"event": 1' in told[0] and b"not ok: 1 violations" in told[1] and b"1 told before" in told[2]
            watch.send_signal(signal.SIGTERM)
            assert await watch.wait() == 1
    finally:
        if watch.returncode is None:
            watch.kill()


async def test_a_quarantined_event_is_listed_and_fixed(world: World, database_url: str) -> None:
    await world.dag("report", ORDERS)
    await world.sql.execute("""update asset set rules = '{"schema": {"required": ["total"]}}'""")
    emitted = onceflow(database_url, "assets", "emit", "orders", "--key", "1", "--extra", '{"n": 1}')
    assert emitted.returncode == 0 and "quarantined" in emitted.stderr and "onceflow events fix 1" in emitted.stderr
    [event] = listed(database_url, "events", "list", "--quarantined")
    assert (event["key"], event["quarantined"], event["flaw"]) == ("1", True, "$: 'total' is a required property")
    assert "'total' is a required" in onceflow(database_url, "why", "event", "1").stdout
    unclear = onceflow(database_url, "events", "fix", "1")
    assert unclear.returncode == 2 and "either --extra or --as-is" in unclear.stderr
    wrong = onceflow(database_url, "events", "fix", "1", "--extra", "{}")
    assert wrong.returncode == 2 and "breaks the schema, too" in wrong.stderr
    fixed = onceflow(database_url, "events", "fix", "1", "--extra", '{"total": 1}', "--reason", "typo")
    assert fixed.returncode == 0, fixed.stderr
    assert listed(database_url, "events", "list", "--quarantined") == []
    [event] = listed(database_url, "events", "list")
    assert (event["extra"], event["quarantined"], event["deliveries"][0]["disposition"]) == (
        *({"total": 1}, False, "pending"),
    )
    again = onceflow(database_url, "events", "fix", "1", "--as-is")
    assert again.returncode == 1 and "not quarantined" in again.stderr
