"""Listings of the real command: their fields, their completeness, their form."""

from __future__ import annotations

import json

from people import World, listed, onceflow

ORDERS = ["asset", "orders"]


async def test_events(world: World, database_url: str) -> None:
    """airflow #48482, #49345: every run of an event is listed; payload and origin are kept as they were given."""
    await world.dag("report", ORDERS)
    await world.dag("archive", ORDERS)
    first = await world.emit("orders", "a", {"rows": 3, "note": "ü"})
    await world.emit("orders", "a", {"rows": 3, "note": "ü"})
    second = await world.emit("orders")
    await world.judge("report")
    seen, other = listed(database_url, "events", "list")
    assert [seen["id"], other["id"]] == [first, second]
    assert {k: seen[k] for k in ("asset", "key", "witnesses", "seq", "extra", "source")} == {
        "asset": "orders",
        "key": "a",
        "witnesses": 2,
        "seq": 1,
        "extra": {"rows": 3, "note": "ü"},
        "source": {"kind": "test"},
    }
    assert other["key"] is None and other["witnesses"] == 1
    archive, report = seen["deliveries"]
    assert archive == {"dag_id": "archive", "disposition": "pending", "run_id": None, "reason": None}
    assert (report["dag_id"], report["disposition"]) == ("report", "started")
    [run, _] = listed(database_url, "runs", "list", "report")
    assert report["run_id"] == run["run_id"]
    assert seen["created_at"].endswith("Z") and len(seen["created_at"]) == 27


async def test_who_saw_an_event(world: World, database_url: str) -> None:
    """Later sightings are kept: who, when, how far behind the first, and whether they told something else."""
    await world.dag("report", ORDERS)
    event = await world.emit("orders", "a", {"rows": 3, "by": 1})
    await world.emit("orders", "a", {"by": 1, "rows": 3})  # the same, in another order
    await world.emit("orders", "a", {"rows": 4})
    await world.sql.execute("update witness set seen_at = seen_at + interval '1 hour' where differs")
    [seen] = listed(database_url, "events", "list")
    assert (seen["witnesses"], seen["differing"]) == (3, 1)
    assert seen["last_seen_at"] > seen["created_at"] and 3600 < seen["behind_seconds"] < 3700
    shown = json.loads(onceflow(database_url, "events", "show", str(event), "-o", "json").stdout)
    first, same, other = shown["sightings"]
    assert (first["seen_at"], first["behind_seconds"], first["differs"]) == (seen["created_at"], 0, False)
    assert (same["differs"], other["differs"], other["source"]) == (False, True, {"kind": "test"})
    assert 0 < same["behind_seconds"] < other["behind_seconds"]
    assert shown["deliveries"][0]["dag_id"] == "report"
    table = onceflow(database_url, "events", "show", str(event)).stdout
    assert "60 min" in table and "report" in table
    why = onceflow(database_url, "why", "event", str(event)).stdout
    assert "seen 2 times more, which made no further event; 1 of them with another payload; the last one 60 min" in why
    assert "60 min behind the first, by test, with another payload" in why
    missing = onceflow(database_url, "events", "show", "99")
    assert missing.returncode == 1 and "pruned" in missing.stderr


async def test_how_long_changes_are_known(world: World, database_url: str) -> None:
    await world.asset("orders", "s3://orders")
    await world.asset("pings")
    await world.sql.execute(
        """update asset set rules = '{"key": {"paths": ["id", "at"]}, "retention": 604800, "protection": 2592000}'
        where name = 'pings'"""
    )
    orders, pings = listed(database_url, "assets", "list")
    names = ("declared_key", "retention_seconds", "protection_seconds", "horizon_seconds")
    assert [orders[n] for n in names] == [None] * 4
    assert [pings[n] for n in names] == ["id, at", 604800, 2592000, 2592000]
    shown = onceflow(database_url, "assets", "show", "pings").stdout
    assert "changes are known  30 d" in shown and "events are kept    7 d" in shown
    assert json.loads(onceflow(database_url, "assets", "show", "s3://orders", "-o", "json").stdout) == orders
    assert onceflow(database_url, "assets", "show", "nothing").returncode == 1


async def test_an_event_that_waits_too_long_for_a_consumer_is_an_alarm(world: World, database_url: str) -> None:
    """dagster#14779, #4333, #16230: the lag of each consumer, and a command that fails when it is too much."""
    await world.dag("join", ["and", [ORDERS, ["asset", "prices"]]], policy="all")
    await world.dag("quick", ["asset", "prices"])
    assert onceflow(database_url, "dags", "list", "--check", "0").returncode == 0, "nothing waits"
    event = await world.emit("orders")
    await world.sql.execute("update event set created_at = created_at - interval '90 s' where id = $1", event)
    shown = onceflow(database_url, "dags", "list", "--check", "60")
    assert shown.returncode == 1 and "join: an event has waited for 9" in shown.stderr
    assert "quick" not in shown.stderr
    header, join, _ = shown.stdout.splitlines()
    assert "LAG (S)" in header and " 9" in join
    assert "LAG (S)" in onceflow(database_url, "dags", "show", "join").stdout
    assert onceflow(database_url, "dags", "list", "--check", "600").returncode == 0
    assert onceflow(database_url, "dags", "list", "--like", "quick", "--check", "60").returncode == 0
    late = onceflow(database_url, "dags", "list", "--check", "60", "-o", "json")
    assert late.returncode == 1 and [d["lag"] is None for d in json.loads(late.stdout)] == [False, True]
    await world.emit("prices")
    await world.judge("join")
    await world.judge("quick")
    assert onceflow(database_url, "dags", "list", "--check", "0").returncode == 0, "what has a run waits no more"


async def test_event_filters(world: World, database_url: str) -> None:
    """airflow #53053: events by asset, key, consumer, disposition and time."""
    await world.dag("report", ORDERS)
    await world.asset("prices", "s3://prices")
    first, second, third = [
        await world.emit("orders", "a"),
        await world.emit("orders", "b"),
        await world.emit("prices"),
    ]
    await world.judge("report")
    at = {e["id"]: e["created_at"] for e in listed(database_url, "events", "list")}

    def ids(*arguments: str) -> list[int]:
        return [e["id"] for e in listed(database_url, "events", "list", *arguments)]

    assert ids("--asset", "s3://prices") == [third]
    assert ids("--key", "b") == [second]
    assert ids("--dag", "report") == [first, second]
    assert ids("--disposition", "open") == []
    assert ids("--disposition", "started", "--limit", "1") == [second]
    assert ids("--since", at[second]) == [second, third]
    assert ids("--until", at[second]) == [first, second]
    assert ids("--source", "cli") == []


async def test_runs(world: World, database_url: str) -> None:
    """airflow #52230: a run's events are listed in the order of their commit."""
    await world.dag("join", ["and", [ORDERS, ["asset", "prices"]]], policy="all")
    events = [await world.emit("orders"), await world.emit("orders"), await world.emit("prices")]
    [run] = await world.judge("join")
    await world.start(run)
    await world.finish(run)
    [seen] = listed(database_url, "runs", "list")
    assert seen["events"] == events
    assert (seen["dag_id"], seen["run_type"], seen["state"]) == ("join", "asset_triggered", "success")
    assert seen["run_id"].startswith("asset_triggered__")
    assert seen["created_at"] <= seen["started_at"] <= seen["finished_at"]
    shown = json.loads(onceflow(database_url, "runs", "show", "join", seen["run_id"], "-o", "json").stdout)
    assert [t["task_id"] for t in shown["tasks"]] == ["work"]
    assert [(a["number"], a["outcome"]) for a in shown["attempts"]] == [(1, "success")]
    assert [t["state"] for t in listed(database_url, "tasks", "list", "join", seen["run_id"])] == ["success"]


async def test_a_run_is_shown_with_its_earlier_attempts(world: World, database_url: str) -> None:
    await world.dag("report", ORDERS)
    await world.emit("orders")
    [run] = await world.judge("report")
    task = await world.start(run)
    [seen] = listed(database_url, "runs", "list")
    assert "earlier attempts" not in onceflow(database_url, "runs", "show", "report", seen["run_id"]).stdout
    await world.sql.execute(
        "update attempt set outcome = 'killed', finished_at = clock_timestamp(), error = $2 where task_id = $1",
        *(task, json.dumps({"type": "Killed", "message": "by signal 9"})),
    )
    await world.sql.execute("update task set attempt = 2 where id = $1", task)
    shown = onceflow(database_url, "runs", "show", "report", seen["run_id"]).stdout
    assert "earlier attempts" in shown and "Killed: by signal 9" in shown


async def test_json_is_complete_unless_limited(world: World, database_url: str) -> None:
    await world.asset("orders")
    lines = "\n".join(json.dumps({"key": str(n)}) for n in range(1205))
    assert onceflow(database_url, "assets", "emit", "orders", "--from", "-", given=lines).returncode == 0
    everything = listed(database_url, "events", "list")
    assert [e["key"] for e in everything] == [str(n) for n in range(1205)]
    assert [e["key"] for e in listed(database_url, "events", "list", "--limit", "2")] == ["1203", "1204"]
    shown = onceflow(database_url, "events", "list")
    assert len(shown.stdout.splitlines()) == 101
    assert "newest 100" in shown.stderr


async def test_tables_are_lines_without_control_characters(world: World, database_url: str) -> None:
    await world.dag("report", ORDERS)
    await world.emit("orders", "[bold]" + "x" * 200 + "\x1b[2J")
    shown = onceflow(database_url, "events", "list")
    assert shown.returncode == 0
    [_, line] = shown.stdout.splitlines()
    assert "[bold]" + "x" * 200 in line and "\x1b" not in line
    assert "1 pending" in line


async def test_empty_listings(database_url: str) -> None:
    for command in (
        *(["events", "list"], ["runs", "list"], ["tasks", "list"], ["dags", "list"], ["dags", "errors"]),
        *(["assets", "list"], ["watchers"], ["processes"]),
    ):
        assert listed(database_url, *command) == []
        assert onceflow(database_url, *command).returncode == 0


async def test_dags(world: World, database_url: str) -> None:
    """dagster #14779, #4333, #16230: how far behind a consumer is, in seconds, beside how much waits."""
    await world.dag("report", ORDERS, description="Daily numbers", tags=("finance",))
    await world.dag("manual", paused=True)
    await world.emit("orders")
    [manual, report] = listed(database_url, "dags", "list")
    assert (manual["dag_id"], manual["paused"], manual["schedule_text"]) == ("manual", True, "none")
    assert (report["schedule_text"], report["open_deliveries"], report["tags"]) == ("orders (each)", 1, ["finance"])
    assert report["lag"] >= 0 and report["description"] == "Daily numbers"
    assert onceflow(database_url, "dags", "show", "report").returncode == 0
    assert [d["dag_id"] for d in listed(database_url, "dags", "list", "--paused")] == ["manual"]
    shown = json.loads(onceflow(database_url, "dags", "show", "report", "-o", "json").stdout)
    assert [t["task_id"] for t in shown["tasks"]] == ["work"]
    assert shown["subscriptions"] == [{"asset": "orders", "from_seq": 1, "until_seq": None, "asset_seq": 1}]
    await world.sql.execute("update dag_file set warnings = $1", json.dumps(["report.py:3: `pool` has no effect yet"]))
    told = onceflow(database_url, "dags", "show", "report").stdout
    assert "Daily numbers" in told and "warning: report.py:3: `pool` has no effect yet" in told
    warned = {"bundle": "default", "path": "report.py", "warning": "report.py:3: `pool` has no effect yet"}
    assert warned in listed(database_url, "dags", "warnings")
    for asked in (
        ("runs", "list", "reprot"),
        ("events", "list", "--dag", "reprot"),
        ("events", "list", "--source-dag", "reprot"),
    ):
        unknown = onceflow(database_url, *asked)
        assert unknown.returncode == 1 and "there is no DAG 'reprot'" in unknown.stderr
    for asked in (("events", "list", "--asset", "ordres"), ("watchers", "--asset", "ordres")):
        unknown = onceflow(database_url, *asked)
        assert unknown.returncode == 1 and "there is no asset 'ordres'" in unknown.stderr
    missing = onceflow(database_url, "dags", "show", "reprot")
    assert missing.returncode == 1
    assert "there is no DAG 'reprot'" in missing.stderr and "report" in missing.stderr


async def test_a_spec_that_cannot_be_taken_apart_harms_no_other(world: World, database_url: str) -> None:
    await world.dag("strange", ORDERS, description="a\0b")
    await world.dag("report", ORDERS)
    await world.emit("orders")
    [run] = await world.judge("report")
    await world.start(run)
    report, strange = listed(database_url, "dags", "list")
    assert report["schedule_text"] == "orders (each)" and strange["description"] is None
    assert listed(database_url, "verify")["ok"]


async def test_dag_errors(world: World, database_url: str) -> None:
    await world.dag("report", ORDERS)
    failure = {"path": "report.py", "code": "bad_dag", "message": "broken", "where": "report.py:3", "remedy": "mend it"}
    await world.sql.execute("update dag_file set failure = $1", json.dumps(failure))
    [seen] = listed(database_url, "dags", "errors")
    assert seen["failure"] == failure and seen["dags"] == ["report"]
    assert "report.py:3" in onceflow(database_url, "dags", "errors").stdout
    await world.sql.execute("update dag_file set failure = $1", json.dumps(failure | {"where": "helpers.py:3"}))
    told = onceflow(database_url, "dags", "errors").stdout
    assert "report.py" in told and "helpers.py:3" in told
    assert "file broken" in onceflow(database_url, "dags", "list").stdout


async def test_assets(world: World, database_url: str) -> None:
    await world.dag("report", ORDERS)
    await world.emit("orders")
    [seen] = listed(database_url, "assets", "list")
    assert (seen["name"], seen["events"], seen["consumers"], seen["watchers"]) == ("orders", 1, ["report"], [])


async def test_watchers(world: World, database_url: str) -> None:
    """airflow #55317, #64617: who watches and since when nothing was seen; a watcher without owner stands out."""
    asset = await world.asset("orders")
    await world.sql.execute(
        "insert into watcher (mode, classpath, kwargs, definition, cursor, active, active_since) "
        "values ('single', 'x.Y', '{}', 'd', '7', true, clock_timestamp() - interval '1 minute')"
    )
    await world.sql.execute("insert into watch (asset_id, name, watcher_id) select $1, 'poll', id from watcher", asset)
    [seen] = listed(database_url, "watchers")
    assert (seen["asset"], seen["watcher"], seen["mode"], seen["state"]) == ("orders", "poll", "single", "unowned")
    assert (seen["health"], seen["assets"]) == ("red", [{"asset": "orders", "watcher": "poll", "match": None}])
    assert "is one ready?" in seen["reason"]
    assert (seen["owner"], seen["term"], seen["cursor"], seen["last_observation"], seen["next_try_at"]) == (
        *(None, 0, 7, None, None),
    )
    await world.sql.execute(
        "update watcher set owner = $1, term = 3, strikes = 2, "
        "claimed_at = clock_timestamp(), last_error = $2, next_try_at = clock_timestamp() + interval '1 hour'",
        *("00000000-0000-0000-0000-000000000001", json.dumps({"message": "no route"})),
    )
    [seen] = listed(database_url, "watchers")
    assert (
        (seen["health"], seen["state"]) == ("red", "backing off")
        and seen["last_error"] == {"message": "no route"}
        and seen["strikes"] == 2
    )
    assert seen["owner"] == "00000000-0000-0000-0000-000000000001" and seen["lag"] >= 0
    assert "no route" in onceflow(database_url, "watchers").stdout


async def test_processes(world: World, database_url: str) -> None:
    await world.sql.execute(
        "insert into process (id, kind, host, pid, parent_pid, version, lease_until) values "
        "('00000000-0000-0000-0000-000000000001', 'scheduler', 'h', 10, 9, '1', now() + interval '1 hour'), "
        "('00000000-0000-0000-0000-000000000002', 'worker', 'h', 11, 9, '1', clock_timestamp() - interval '1 hour')"
    )
    running, silent = listed(database_url, "processes")
    assert list(running)[:8] == ["id", "kind", "host", "pid", "parent_pid", "started_at", "last_seen", "state"]
    assert (running["state"], silent["state"]) == ("running", "silent")
    assert [p["kind"] for p in listed(database_url, "processes", "--kind", "worker")] == ["worker"]
