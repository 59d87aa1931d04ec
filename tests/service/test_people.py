"""What people do beside the machines, by command and by the API: run again, replay, discard, release."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest

from onceflow.api import models
from onceflow.api.app import create_app
from onceflow.config import Settings
from onceflow.queries.verify import verify
from onceflow.store.database import Database
from people import World, listed, onceflow
from support import eventually

ORDERS = ["asset", "orders"]
DAGS = "/api/v2/dags"


@pytest.fixture
async def world(world: World) -> AsyncIterator[World]:
    """A consumer with one run that has ended, and one event that waits."""
    await world.dag("report", ORDERS)
    await world.emit("orders", "a")
    [run] = await world.judge("report")
    await world.start(run)
    await world.finish(run)
    await world.emit("orders", "b")
    yield world
    assert (await verify(world.database))["violations"] == []


@pytest.fixture
async def api(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(database, Settings(), "secret")
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)  # type: ignore[arg-type]
    headers = {"Authorization": "Bearer secret"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", headers=headers) as client:
        yield client


async def test_by_command(world: World, database_url: str) -> None:
    [run] = listed(database_url, "runs", "list", "report")
    again = listed(database_url, "runs", "rerun", "report", run["run_id"], "--reason", "wrong rate")
    assert (again["run_type"], again["events"], again["of_run"]) == ("rerun", run["events"], run["run_id"])
    assert (again["reason"], again["created_by"]["kind"]) == ("wrong rate", "cli")
    shown = onceflow(database_url, "runs", "show", "report", again["run_id"])
    assert f"again: {run['run_id']}" in shown.stdout and "reason: wrong rate" in shown.stdout
    done = listed(database_url, "events", "replay", "orders", "--dag", "report", "--downstream", "tag")
    assert [r["events"] for r in done["runs"]] == [[1], [2]] and done["filtered"] == []
    rehearsed = onceflow(database_url, "events", "replay", "--id", "1", "--dag", "report", "--rehearse")
    assert "(would be made)" in rehearsed.stdout
    why = onceflow(database_url, "why", "event", "1")
    assert "DAG report, beside: replay" in why.stdout
    gone = listed(database_url, "events", "discard", "2", "--reason", "test data")
    assert gone == [{"dag_id": "report", "deliveries": 1}]
    [event] = listed(database_url, "events", "list", "--disposition", "discarded")
    assert event["id"] == 2 and listed(database_url, "events", "list", "--held") == []
    assert onceflow(database_url, "events", "release", "--dag", "report").stdout == "0 deliveries to report released\n"
    assert [r["run_type"] for r in listed(database_url, "runs", "list", "--type", "replay")] == ["replay", "replay"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("runs", "rerun", "report", "no"), 1, "has no run 'no'"),
        (("runs", "rerun", "no", "no"), 1, "there is no DAG 'no'"),
        (("events", "replay", "--dag", "report"), 2, "an asset, or --id"),
        (("events", "replay", "orders", "--dag", "no"), 1, "there is no DAG 'no'"),
        (("events", "replay", "prices", "--dag", "report"), 1, "there is no asset 'prices'"),
        (("events", "discard"), 2, "events by id, or --dag"),
        (("events", "discard", "--dag", "no"), 1, "there is no DAG 'no'"),
    ],
)
async def test_refused_by_command(
    world: World, database_url: str, *, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = onceflow(database_url, *arguments)
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr, done.stderr


async def test_a_command_that_is_stopped_lets_go_of_what_it_locked(world: World, database_url: str) -> None:
    """By Ctrl-Z, inside its transaction: whoever needs the asset waits for half a lease, not until it goes on."""
    await world.sql.execute("""update asset set rules = '{"schema": {"required": ["n"]}}'""")
    event = await world.emit("orders", "c", {})
    free = "select 1 from asset where name = 'orders' for no key update skip locked"
    waiting = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    gate = await asyncpg.connect(database_url)
    await gate.execute("begin; select 1 from quarantine for update")
    command = [sys.executable, "-m", "onceflow.cli.main", "events", "fix", str(event), "--as-is"]
    environment = os.environ | {"ONCEFLOW_DATABASE_URL": database_url, "ONCEFLOW_LEASE_SECONDS": "4"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        await eventually(lambda: world.sql.fetchval(waiting), why="it is inside its transaction")
        process.send_signal(signal.SIGSTOP)
        assert await world.sql.fetchval(free) is None
        await gate.close()
        await eventually(lambda: world.sql.fetchval(free), why="the asset is free")
    finally:
        process.kill()
        process.wait()


async def test_by_the_api(world: World, api: httpx.AsyncClient) -> None:
    [run] = (await api.get(f"{DAGS}/report/dagRuns")).json()["dag_runs"]
    again = (await api.post(f"{DAGS}/report/dagRuns/{run['dag_run_id']}/rerun", json={"reason": "x"})).json()
    assert (again["run_type"], again["events"], again["of_run"]) == ("rerun", [1], run["dag_run_id"])
    assert (again["reason"], again["downstream"], again["triggered_by"]) == ("x", "emit", "rest_api")
    chosen = {"assets": ["orders"], "downstream": "hold"}
    rehearsed = (await api.post(f"{DAGS}/report/replay", json=chosen | {"rehearse": True})).json()
    assert rehearsed == {
        "runs": [{"dag_run_id": None, "events": [1]}, {"dag_run_id": None, "events": [2]}],
        "filtered": [],
    }
    done = (await api.post(f"{DAGS}/report/replay", json=chosen)).json()
    made = (await api.get(f"{DAGS}/report/dagRuns/{done['runs'][1]['dag_run_id']}")).json()
    assert (made["run_type"], made["events"], made["downstream"]) == ("replay", [2], "hold")
    waiting = {"consumer": "report", "disposition": "open"}
    assert (await api.get("/api/v2/assets/events", params=waiting)).json()["total_entries"] == 1
    gone = await api.post(f"{DAGS}/report/deliveries/discard", json={"events": [2], "reason": "test data"})
    assert gone.json() == {"dag_id": "report", "deliveries": 1}
    assert (await api.get("/api/v2/assets/events", params=waiting)).json()["total_entries"] == 0
    assert (await api.post(f"{DAGS}/report/deliveries/release", json={})).json()["deliveries"] == 0


async def test_a_request_that_comes_again_makes_no_second_run(world: World, api: httpx.AsyncClient) -> None:
    """Whether its answer was kept, or the server died before it was."""
    [run] = (await api.get(f"{DAGS}/report/dagRuns")).json()["dag_runs"]
    for path, body in ((f"dagRuns/{run['dag_run_id']}/rerun", {}), ("replay", {"assets": ["orders"]})):
        answers = []
        for kept in (True, True, False):
            if not kept:
                await world.sql.execute("update request set status = null, answer = null")
            answers.append(await api.post(f"{DAGS}/report/{path}", json=body, headers={"Idempotency-Key": "k"}))
        assert [a.status_code for a in answers] == [200] * 3
        assert answers[0].json() == answers[1].json() == answers[2].json()
        assert [a.headers.get("Idempotency-Replayed") for a in answers] == [None, "true", None]
    assert (await api.get(f"{DAGS}/report/dagRuns")).json()["total_entries"] == 1 + 1 + 2


async def test_who_asks_may_give_a_name(world: World, database_url: str, api: httpx.AsyncClient) -> None:
    """Recorded as told, beside the client's address; wherever a request changes something."""
    anna = {"X-Onceflow-Actor": "anna"}
    made = await api.post("/api/v2/assets/events", json={"name": "orders", "key": "c"}, headers=anna)
    assert made.json()["source"] == {"kind": "api", "client": "127.0.0.1", "actor": "anna"}
    assert (await api.post(f"{DAGS}/report/deliveries/discard", json={}, headers=anna)).json()["deliveries"] == 2
    why = onceflow(database_url, "why", "event", str(made.json()["id"])).stdout
    assert why.count("a request to the API from 127.0.0.1 by anna") == 2
    for wrong in ("", " ", "x" * 201, "a\tb"):
        refused = await api.post(f"{DAGS}/report/deliveries/discard", json={}, headers={"X-Onceflow-Actor": wrong})
        assert (refused.status_code, refused.json()["where"]) == (422, "X-Onceflow-Actor")


async def test_explanations_are_those_of_the_command(world: World, database_url: str, api: httpx.AsyncClient) -> None:
    [run] = listed(database_url, "runs", "list", "report")
    asked: list[tuple[str, type[Any], tuple[str, ...]]] = [
        (f"{DAGS}/report/dagRuns/{run['run_id']}/why", models.WhyRun, ("why", "run", "report", run["run_id"])),
        ("/api/v2/assets/events/1/why", models.WhyEvent, ("why", "event", "1")),
        (f"{DAGS}/report/why-not", models.WhyNot, ("why-not", "report")),
        (f"{DAGS}/report/why-not?since=2026-01-01T00:00:00Z", models.WhyNot, ("why-not", "report", "--since", "2026")),
    ]
    for path, model, command in asked[:3]:
        answer = (await api.get(path)).json()
        assert answer["because"] and answer == listed(database_url, *command)
        assert model.model_validate(answer).model_dump() == answer
    assert (await api.get(asked[3][0])).json()["since"] == "2026-01-01T00:00:00Z"
    for path in (f"{DAGS}/report/dagRuns/no/why", "/api/v2/assets/events/99/why", f"{DAGS}/no/why-not"):
        assert (await api.get(path)).status_code == 404
    assert (await api.get(f"{DAGS}/report/why-not?since=then")).status_code == 422


async def test_a_quarantined_event_is_mended_by_the_api(
    world: World, database_url: str, api: httpx.AsyncClient
) -> None:
    await world.sql.execute('update asset set rules = \'{"schema": {"required": ["id"]}}\' where name = \'orders\'')
    bad = (await api.post("/api/v2/assets/events", json={"name": "orders", "key": "c", "extra": {}})).json()
    assert bad["quarantined"]
    listed_now = (await api.get("/api/v2/assets/events?quarantined=true")).json()["asset_events"]
    assert [e["id"] for e in listed_now] == [bad["id"]]
    fix = f"/api/v2/assets/events/{bad['id']}/fix"
    for body, status in (
        ({}, 422),
        ({"extra": {"id": 1}, "as_is": True}, 422),
        ({"extra": {}}, 422),
        ({"extra": {"id": 1}, "key": "d"}, 422),
    ):
        assert (await api.post(fix, json=body)).status_code == status
    done = (await api.post(fix, json={"extra": {"id": 1}, "reason": "typo"})).json()
    assert models.MendedAssetEvent.model_validate(done).model_dump() == done
    assert (done["key"], done["quarantined"], done["same_as"]) == ("c", False, None)
    assert (await api.post(fix, json={"as_is": True})).status_code == 409
    again = await api.post("/api/v2/assets/events", json={"name": "orders", "key": "e", "extra": {}})
    rechecked = await api.post("/api/v2/assets/events/recheck", json={"asset": "orders"})
    assert rechecked.json()["left"][0]["event_id"] == again.json()["id"]
    await world.sql.execute("update asset set rules = '{}' where name = 'orders'")
    done = listed(database_url, "events", "recheck", "orders")
    assert done["released"] == [{"event_id": again.json()["id"], "key": "e", "same_as": None}] and not done["left"]
    assert "nothing of orders is in quarantine" in onceflow(database_url, "events", "recheck", "orders").stdout
    assert (await api.post("/api/v2/assets/events/99/fix", json={"as_is": True})).status_code == 404


async def test_watchers_are_listed_and_released(world: World, api: httpx.AsyncClient) -> None:
    await world.sql.execute(
        "insert into watcher (definition, mode, classpath, kwargs, active, storm, storm_at, next_try_at) "
        "values ('d', 'single', 't.Poll', '{}', true, '{\"events\": 9, \"limit\": 5}', now(), 'infinity')"
    )
    await world.sql.execute(
        "insert into watch (asset_id, name, watcher_id) select id, 'poll', 1 from asset where name = 'orders'"
    )
    answer = (await api.get("/api/v2/watchers")).json()
    assert models.WatcherCollection.model_validate(answer).model_dump() == answer
    [row] = answer["watchers"]
    assert (row["asset"], row["watcher"], row["state"], row["health"]) == ("orders", "poll", "storm", "red")
    assert (await api.get("/api/v2/watchers?asset=prices")).json()["total_entries"] == 0
    done = (await api.post("/api/v2/watchers/release", json={"asset": "orders", "reason": "mended"})).json()
    assert done == {"asset": "orders", "released": ["poll"]}
    assert (await api.get("/api/v2/watchers")).json()["watchers"][0]["storm"] is None
    assert (await api.post("/api/v2/watchers/release", json={"asset": "no"})).status_code == 404


async def test_a_storm_is_seen_and_released(world: World, database_url: str, api: httpx.AsyncClient) -> None:
    await world.sql.execute(
        "update delivery set disposition = 'held', judged = true, reason = 'storm' where event_id = 2"
    )
    await world.sql.execute("update dag set storm = '{}', storm_at = clock_timestamp(), release_at = null")
    [row] = listed(database_url, "dags", "list")
    assert row["held"] == 1 and row["storm_at"] is not None
    assert "active, storm" in onceflow(database_url, "dags", "list").stdout
    assert "1 events are held; `onceflow dags release`" in onceflow(database_url, "dags", "show", "report").stdout
    assert (await api.get(f"{DAGS}/report")).json()["held_deliveries"] == 1
    assert onceflow(database_url, "dags", "release", "report").returncode == 2
    assert onceflow(database_url, "dags", "release", "report", "--slowly", "0").returncode == 2
    slowly = onceflow(database_url, "dags", "release", "report", "--slowly", "5", "--reason", "x")
    assert slowly.stdout == "1 events are released, 5 a minute\n"
    assert "released slowly, 5 a minute" in onceflow(database_url, "dags", "show", "report").stdout
    done = (await api.post(f"{DAGS}/report/release", json={"how": "each"})).json()
    assert done == {"dag_id": "report", "deliveries": 1}
    for how, said in (("--each", "pending again"), ("--merged", "for one run"), ("--discard", "discarded")):
        assert said in onceflow(database_url, "dags", "release", "report", how).stdout
    assert (await api.get(f"{DAGS}/report")).json()["storm_since"] is None
    assert (await api.post(f"{DAGS}/report/release", json={"how": "slowly"})).status_code == 422
    assert (await api.post(f"{DAGS}/no/release", json={"how": "each"})).status_code == 404
    assert len(await world.judge("report")) == 1


async def test_refused_by_the_api(world: World, api: httpx.AsyncClient) -> None:
    assert (await api.post(f"{DAGS}/report/dagRuns/no/rerun", json={})).status_code == 404
    assert (await api.post(f"{DAGS}/no/replay", json={"events": [1]})).status_code == 404
    assert (await api.post(f"{DAGS}/report/replay", json={"events": [99]})).status_code == 422
    assert (await api.post(f"{DAGS}/no/deliveries/discard", json={})).status_code == 404
    assert (await api.post(f"{DAGS}/report/replay", json={"downstream": "drop"})).status_code == 422
