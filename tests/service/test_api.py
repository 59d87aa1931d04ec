"""The API: its answers, its guard, its errors."""

from __future__ import annotations

import asyncio
import json
import stat
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from onceflow.api import models
from onceflow.api.app import create_app
from onceflow.api.guard import BODY_LIMIT
from onceflow.api.token import ensure_token
from onceflow.config import Settings
from onceflow.model.errors import ConfigError
from onceflow.model.limits import EXTRA_LIMIT
from onceflow.store.database import Database
from people import World

ORDERS = ["asset", "orders"]
BASE = "http://127.0.0.1:8080"
TOKEN = {"Authorization": "Bearer secret"}


@pytest.fixture
async def world(world: World) -> World:
    await world.dag("report", ORDERS)
    return world


@pytest.fixture
def woken() -> list[str]:
    return []


@pytest.fixture
async def api(database: Database, woken: list[str]) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the token, and the application it talks to."""
    app = create_app(database, Settings(), "secret", wake=lambda *topics: woken.extend(topics))
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=TOKEN) as client:
        yield client


async def emit(api: httpx.AsyncClient, *, headers: dict[str, str] | None = None, **body: object) -> httpx.Response:
    return await api.post("/api/v2/assets/events", json=body, headers=headers)


async def test_emit_by_name_uri_and_id(api: httpx.AsyncClient, world: World, woken: list[str]) -> None:
    """airflow #53615, #49345: an event by name, URI or id, with key; payload and origin are kept."""
    stock = await world.asset("stock", "s3://stock")
    answer = (await emit(api, name="orders", key="a", extra={"rows": [1, 2.5, None]})).json()
    assert (answer["status"], answer["key"], answer["extra"]) == ("stored", "a", {"rows": [1, 2.5, None]})
    assert answer["deliveries"] == [{"dag_id": "report", "disposition": "pending", "run_id": None, "reason": None}]
    assert woken == ["delivery"]
    again = (await emit(api, name="orders", key="a")).json()
    assert (again["id"], again["status"], again["witnesses"]) == (answer["id"], "duplicate", 2)
    assert (await emit(api, uri="s3://stock")).json()["name"] == "stock"
    assert (await emit(api, asset_id=stock)).json()["seq"] == 2
    listed = (await api.get("/api/v2/assets/events", params={"name": "stock"})).json()
    assert listed["total_entries"] == 2
    assert [e["seq"] for e in listed["asset_events"]] == [1, 2]
    assert listed["asset_events"][0]["source"]["kind"] == "api"


async def test_idempotency_key(api: httpx.AsyncClient, world: World) -> None:
    """argo-events #850: the same request again gets the same answer, and makes nothing, whatever happened since."""
    first = await emit(api, name="orders", extra={"n": 1}, headers={"Idempotency-Key": "k1"})
    await emit(api, name="orders", key="k1")  # the world goes on: the event has a witness more
    reordered = {"extra": {"n": 1}, "name": "orders"}
    again = await api.post("/api/v2/assets/events", json=reordered, headers={"Idempotency-Key": "k1"})
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert "Idempotency-Replayed" not in first.headers and again.headers["Idempotency-Replayed"] == "true"
    other = await emit(api, name="orders", extra={"n": 1}, headers={"Idempotency-Key": "k2"})
    assert other.json()["id"] != first.json()["id"]
    better = await emit(api, name="orders", key="real", headers={"Idempotency-Key": "k3"})
    assert better.json()["key"] == "real"


async def test_an_idempotency_key_belongs_to_one_body(api: httpx.AsyncClient, world: World) -> None:
    headers = {"Idempotency-Key": "k1"}
    await emit(api, name="orders", extra={"n": 1}, headers=headers)
    changed = await emit(api, name="orders", extra={"n": 2}, headers=headers)
    assert (changed.status_code, changed.json()["code"], changed.json()["where"]) == (
        *(422, "key_reused", "Idempotency-Key"),
    )
    both = await asyncio.gather(
        *(emit(api, name="orders", key=f"{n}", headers={"Idempotency-Key": "at once"}) for n in (1, 2))
    )
    assert sorted(a.status_code for a in both) == [200, 422]
    assert await world.sql.fetchval("select count(*) from event") == 2
    run = await api.post("/api/v2/dags/report/dagRuns", json={}, headers=headers)
    assert run.status_code == 200, "of another kind of request it is another key"


async def test_a_refused_request_may_be_mended_under_its_key(api: httpx.AsyncClient, world: World) -> None:
    """It did nothing, so there is nothing to replay."""
    headers = {"Idempotency-Key": "k1"}
    assert (await emit(api, name="soon", headers=headers)).status_code == 404
    assert (await emit(api, name="orders", headers=headers)).json()["status"] == "stored"
    at_database = {"Idempotency-Key": "k2"}
    assert (await emit(api, asset_id=2**63, headers=at_database)).status_code == 422
    assert (await emit(api, name="orders", headers=at_database)).json()["status"] == "stored"


async def test_an_answer_that_was_never_kept_is_given_again(api: httpx.AsyncClient, world: World) -> None:
    """The server died between recording the change and keeping the answer: nothing is recorded twice."""
    headers = {"Idempotency-Key": "k1"}
    first = await emit(api, name="orders", key="a", headers=headers)
    made = await api.post("/api/v2/dags/report/dagRuns", json={}, headers=headers)
    await world.sql.execute("update request set status = null, answer = null")
    again = await emit(api, name="orders", key="a", headers=headers)
    assert again.json() == first.json()
    assert (await api.post("/api/v2/dags/report/dagRuns", json={}, headers=headers)).json() == made.json()
    assert await world.sql.fetchval("select count(*) from event") == 1
    assert await world.sql.fetchval("select count(*) from run") == 1
    assert await world.sql.fetchval("select count(*) from witness") == 0


async def test_one_run_of_one_request(api: httpx.AsyncClient, world: World) -> None:
    """PrefectHQ/prefect #8880: a start that is sent twice is one run, and both know it."""
    headers = {"Idempotency-Key": "k1"}
    sent = await asyncio.gather(
        *(api.post("/api/v2/dags/report/dagRuns", json={"conf": {"a": 1}}, headers=headers) for _ in range(8))
    )
    assert {a.status_code for a in sent} == {200}
    assert len({a.json()["dag_run_id"] for a in sent}) == 1
    assert await world.sql.fetchval("select count(*), max(ordinal) from run") == 1


async def test_a_request_s_key_is_the_change_s_only_if_nothing_better_is_there(
    api: httpx.AsyncClient, world: World
) -> None:
    await world.sql.execute("""update asset set rules = '{"key": {"paths": ["order.id"]}}' where name = 'orders'""")
    answer = await emit(api, name="orders", extra={"order": {"id": 7}}, headers={"Idempotency-Key": "k1"})
    assert answer.json()["key"] == "7"
    refused = await emit(api, name="orders", extra={"order": 7}, headers={"Idempotency-Key": "k2"})
    assert (refused.status_code, refused.json()["where"]) == (422, "asset 'orders' with key=order.id")
    assert "'order' is 7" in refused.json()["detail"]
    await world.sql.execute("""update asset set rules = '{"key": {"function": "f.by", "file": "f.py"}}'""")
    refused = await emit(api, name="orders", extra={"id": 7}, headers={"Idempotency-Key": "k3"})
    assert refused.status_code == 422 and "the function f.by" in refused.json()["detail"]


async def test_concurrent_posts(api: httpx.AsyncClient, world: World) -> None:
    """argo-events #3326: 100 posts at once are 100 events; under one Idempotency-Key they are one."""
    answers = await asyncio.gather(*(emit(api, name="orders") for _ in range(100)))
    assert len({a.json()["id"] for a in answers}) == 100
    same = await asyncio.gather(*(emit(api, name="orders", headers={"Idempotency-Key": "k"}) for _ in range(20)))
    assert len({a.json()["id"] for a in same}) == 1
    assert {a.json()["status"] for a in same} == {"stored"}


async def test_an_event_is_shown_with_all_who_saw_it(api: httpx.AsyncClient, world: World) -> None:
    event = (await emit(api, name="orders", key="a", extra=1)).json()
    again = (await emit(api, name="orders", key="a", extra=2)).json()
    assert (again["witnesses"], again["differing"]) == (2, 1) and again["behind_seconds"] > 0
    shown = (await api.get(f"/api/v2/assets/events/{event['id']}")).json()
    first, later = shown.pop("sightings")
    assert shown == {k: v for k, v in again.items() if k != "status"}
    assert (first["differs"], later["differs"], later["source"]["kind"]) == (False, True, "api")
    assert (await api.get("/api/v2/assets/events/99")).status_code == 404


async def test_a_change_whose_event_is_pruned_is_known(api: httpx.AsyncClient, world: World) -> None:
    first = (await emit(api, name="orders", key="a")).json()
    await world.sql.execute(
        "update delivery set disposition = 'filtered', reason = 'x', decided_at = clock_timestamp()"
    )
    [row] = await world.sql.fetch("select * from prune_events(1, 0, clock_timestamp(), 10)")
    assert row["pruned"] == 1
    again = (await emit(api, name="orders", key="a")).json()
    assert again == {"id": first["id"], "name": "orders", "key": "a", "status": "duplicate", "pruned": True}


@pytest.mark.parametrize(
    ("body", "status", "code", "where"),
    [
        ({"name": "nothing"}, 404, "not_found", ""),
        ({"asset_id": 99}, 404, "not_found", ""),
        ({}, 422, "bad_input", "body"),
        ({"name": "orders", "uri": "x"}, 422, "bad_input", "body"),
        ({"name": "orders", "kee": "a"}, 422, "bad_input", "body.kee"),
        ({"name": "orders", "key": ""}, 422, "bad_input", "body"),
        ({"name": "orders", "key": "a\0b"}, 422, "bad_input", "body"),
        ({"name": "orders", "extra": "x" * EXTRA_LIMIT}, 422, "bad_input", "body"),
    ],
)
async def test_refused_events(
    api: httpx.AsyncClient, world: World, *, body: dict[str, object], status: int, code: str, where: str
) -> None:
    answer = await api.post("/api/v2/assets/events", json=body)
    said = answer.json()
    assert (answer.status_code, said["code"], said["where"]) == (status, code, where), said
    assert said["detail"] and said["remedy"]
    assert await world.sql.fetchval("select count(*) from event") == 0


async def test_bad_bodies(api: httpx.AsyncClient, world: World) -> None:
    for content, status in (
        (b"{", 422),
        (b"[" * 100_000, 400),
        (b'{"name": "orders", "extra": NaN}', 422),
        (b"x" * (BODY_LIMIT + 1), 413),
        (json.dumps({"name": "orders", "extra": {"a": "\ud800"}}).encode(), 200),
    ):
        answer = await api.post("/api/v2/assets/events", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == status, answer.text
    form = await api.post("/api/v2/assets/events", content=b'{"name": "orders"}')
    assert (form.status_code, form.json()["remedy"]) == (422, "send the body with `Content-Type: application/json`")
    assert str(BODY_LIMIT) in (await api.post("/x", content=b"x" * (BODY_LIMIT + 1))).json()["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v2/dags/%00",
        "/api/v2/dags?offset=99999999999999999999",
        "/api/v2/assets/events?asset_id=99999999999999999999",
        "/api/v2/assets/events?source_dag_id=%00",
    ],
)
async def test_arguments_that_no_database_takes(api: httpx.AsyncClient, world: World, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")


async def test_body_limit_without_a_length(api: httpx.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(BODY_LIMIT // 1000 + 2):
            yield b"x" * 1000

    assert (await api.post("/api/v2/assets/events", content=endless())).status_code == 413


async def test_runs(api: httpx.AsyncClient, world: World, woken: list[str]) -> None:
    event = await world.emit("orders", "a")
    [run] = await world.judge("report")
    await world.start(run)
    await world.finish(run)
    made = (await api.post("/api/v2/dags/report/dagRuns", json={"conf": {"a": 1}})).json()
    assert (made["state"], made["run_type"], made["triggered_by"], made["conf"]) == (
        *("queued", "manual", "rest_api", {"a": 1}),
    )
    assert woken == ["run", "dag"]
    listed = (await api.get("/api/v2/dags/report/dagRuns")).json()
    assert listed["total_entries"] == 2
    by_event, by_hand = listed["dag_runs"]
    assert (by_event["events"], by_event["state"], by_event["triggered_by"]) == ([event], "success", "asset")
    assert by_hand == made
    assert (await api.get(f"/api/v2/dags/report/dagRuns/{made['dag_run_id']}")).json() == made
    [newest] = (await api.get("/api/v2/dags/~/dagRuns", params={"order_by": "-id", "limit": 1})).json()["dag_runs"]
    assert newest == made
    [success] = (await api.get("/api/v2/dags/~/dagRuns", params={"state": "success"})).json()["dag_runs"]
    assert success == by_event
    beyond = (await api.get("/api/v2/dags/report/dagRuns", params={"offset": 10})).json()
    assert beyond == {"dag_runs": [], "total_entries": 2}
    [seen] = (await api.get("/api/v2/assets/events")).json()["asset_events"]
    assert seen["created_dagruns"] == [{"dag_id": "report", "run_id": by_event["dag_run_id"]}]


async def test_runs_that_cannot_be(api: httpx.AsyncClient, world: World) -> None:
    params = {"param_schemas": {"n": {"type": "integer", "maximum": 9}}, "params": {"n": 1}}
    await world.dag("limited", **params)
    answer = await api.post("/api/v2/dags/limited/dagRuns", json={"conf": {"n": 10}})
    assert (answer.status_code, answer.json()["where"]) == (422, "conf.n") and "9 or less" in answer.json()["remedy"]
    slot = {"logical_date": "2026-01-01T00:00:00Z"}
    assert (await api.post("/api/v2/dags/report/dagRuns", json=slot)).status_code == 200
    assert (await api.post("/api/v2/dags/report/dagRuns", json=slot)).status_code == 409
    assert (await api.post("/api/v2/dags/report/dagRuns", json={"logical_date": "soon"})).status_code == 422
    assert (await api.post("/api/v2/dags/report/dagRuns", json={"dag_run_id": "mine"})).status_code == 422
    for path in ("/api/v2/dags/no", "/api/v2/dags/no/dagRuns", "/api/v2/dags/report/dagRuns/no", "/api/v2/no"):
        assert (await api.get(path)).status_code == 404
    missing = await api.post("/api/v2/dags/reports/dagRuns", json={})
    assert missing.status_code == 404 and "report" in missing.json()["remedy"]
    assert (await api.delete("/api/v2/dags")).status_code == 405


async def test_dags_and_pausing(api: httpx.AsyncClient, world: World, woken: list[str]) -> None:
    await world.dag("quiet", paused=True)
    listed = (await api.get("/api/v2/dags")).json()
    assert [(d["dag_id"], d["is_paused"]) for d in listed["dags"]] == [("quiet", True), ("report", False)]
    assert listed["total_entries"] == 2
    one = (await api.get("/api/v2/dags", params={"limit": 1, "offset": 1})).json()
    assert ([d["dag_id"] for d in one["dags"]], one["total_entries"]) == (["report"], 2)
    await world.emit("orders")
    await world.sql.execute("update delivery set disposition = 'held', reason = 'pause', judged = true")
    changed = (await api.patch("/api/v2/dags/report", json={"is_paused": True})).json()
    assert changed["is_paused"] and changed["open_deliveries"] == 1
    changed = (await api.patch("/api/v2/dags/report", json={"is_paused": False})).json()
    assert not changed["is_paused"]
    assert await world.sql.fetchval("select disposition = 'pending' and not judged from delivery")
    assert set(woken) == {"delivery", "run", "dag"}
    assert (await api.patch("/api/v2/dags/no", json={"is_paused": False})).status_code == 404
    assert (await api.patch("/api/v2/dags/report", json={"is_paused": "maybe"})).status_code == 422


async def test_resuming_with_a_word_on_what_waits(api: httpx.AsyncClient, world: World) -> None:
    await api.patch("/api/v2/dags/report", json={"is_paused": True, "reason": "repairs"})
    await world.emit("orders")
    refused = await api.patch("/api/v2/dags/report", json={"is_paused": True, "pending": "join"})
    assert refused.status_code == 422 and "goes with a resume" in refused.json()["remedy"]
    resumed = await api.patch("/api/v2/dags/report", json={"is_paused": False, "pending": "discard", "reason": "stale"})
    assert not resumed.json()["is_paused"] and resumed.json()["open_deliveries"] == 0
    made = await world.sql.fetch("select kind, pending, reason, by ->> 'kind' as by from intervention order by id")
    assert [tuple(m) for m in made] == [("pause", None, "repairs", "api"), ("unpause", "discard", "stale", "api")]
    again = await api.patch("/api/v2/dags/report", json={"is_paused": False, "pending": "discard"})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert (await api.patch("/api/v2/dags/report", json={"is_paused": False, "pending": "some"})).status_code == 422


async def test_assets(api: httpx.AsyncClient, world: World) -> None:
    [asset] = (await api.get("/api/v2/assets", params={"name": "orders"})).json()["assets"]
    assert (asset["name"], asset["scheduled_dags"], asset["events"]) == ("orders", [{"dag_id": "report"}], 0)


@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer wrong", "Basic secret", "secret", "Bearer sécret"])
async def test_everything_but_health_needs_the_token(api: httpx.AsyncClient, given: str | None) -> None:
    headers = {"Authorization": given.encode("latin-1")} if given is not None else {}
    del api.headers["Authorization"]
    for path in ("/api/v2/dags", "/api/v2/assets/events", "/openapi.json", "/docs", "/", "/anything", "/health/../api"):
        answer = await api.get(path, headers=headers)
        assert answer.status_code == 401, path
        assert answer.json()["code"] == "unauthorized" and answer.headers["WWW-Authenticate"] == "Bearer"
    assert (await api.post("/api/v2/assets/events", headers=headers, content=b"{")).status_code == 401
    for path in ("/health", "/ready", "/api/v2/monitor/health"):
        assert (await api.get(path, headers=headers)).status_code == 200


async def test_foreign_hosts_and_origins(api: httpx.AsyncClient) -> None:
    for name in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""):
        assert (await api.get("/health", headers={"Host": name})).status_code == 403
    for name in ("localhost:1", "LOCALHOST", "[::1]:8080", "127.0.0.1"):
        assert (await api.get("/health", headers={"Host": name})).status_code == 200
    assert (await api.get("/health", headers={"Origin": "http://evil.example"})).status_code == 403
    assert (await api.get("/health", headers={"Origin": "null"})).status_code == 403
    assert (await api.get("/health", headers={"Origin": BASE})).status_code == 200


async def test_any_host_when_served_to_others(database: Database) -> None:
    transport = httpx.ASGITransport(app=create_app(database, Settings(host="0.0.0.0"), "secret"))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://flow.example") as client:
        assert (await client.get("/health")).status_code == 200


async def test_answers_have_the_declared_form(api: httpx.AsyncClient, world: World) -> None:
    await world.emit("orders", "a")
    await world.judge("report")
    for path, model in (
        ("/api/v2/dags", models.DagCollection),
        ("/api/v2/dags/report", models.Dag),
        ("/api/v2/dags/report/dagRuns", models.DagRunCollection),
        ("/api/v2/assets", models.AssetCollection),
        ("/api/v2/assets/events", models.AssetEventCollection),
    ):
        answer = (await api.get(path)).json()
        assert model.model_validate(answer).model_dump() == answer
    shown = (await api.get("/api/v2/assets/events/1")).json()
    assert models.ShownAssetEvent.model_validate(shown).model_dump() == shown
    made = (await emit(api, name="orders")).json()
    assert models.RecordedAssetEvent.model_validate(made).model_dump() == made


async def test_openapi(api: httpx.AsyncClient) -> None:
    """Every path says what it answers and what a writing one may be sent with."""
    paths = (await api.get("/openapi.json")).json()["paths"]
    assert {"/api/v2/dags", "/api/v2/dags/{dag_id}/dagRuns", "/api/v2/assets/events", "/health"} <= set(paths)
    for path, methods in paths.items():
        for method, said in methods.items():
            assert said["description"] and said["responses"]["200"]["content"]["application/json"]["schema"], path
            headers = {p["name"] for p in said.get("parameters", ()) if p["in"] == "header"}
            assert ("X-Onceflow-Actor" in headers) == (method != "get"), path
    once = [p for p, m in paths.items() if "Idempotency-Key" in str(m.get("post", {}).get("parameters", ""))]
    assert {p.rpartition("/")[2] for p in once} == {"events", "dagRuns", "rerun", "replay"}


async def test_monitor_health(api: httpx.AsyncClient, world: World) -> None:
    """airflow #65945: what lives is told apart from what works."""
    await world.sql.execute(
        "insert into process (id, kind, host, pid, parent_pid, version, lease_until) "
        "values ($1, 'scheduler', 'h', 10, 9, '1', now() + interval '1 hour')",
        uuid.uuid4(),
    )
    health = (await api.get("/api/v2/monitor/health")).json()
    assert health["metadatabase"] == {"status": "healthy"}
    assert health["scheduler"]["status"] == "healthy" and health["scheduler"]["latest_scheduler_heartbeat"]
    assert health["triggerer"]["status"] == "unhealthy"


async def test_not_ready_without_the_schema(api: httpx.AsyncClient, world: World) -> None:
    await world.sql.execute("drop table migration")
    answer = await api.get("/ready")
    assert answer.status_code == 503 and "onceflow db migrate" in answer.json()["detail"]
    assert (await api.get("/health")).status_code == 200


async def test_a_fault_of_ours_is_told_without_its_innards(
    api: httpx.AsyncClient, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.sql.execute("drop table witness")
    answer = await api.get("/api/v2/assets/events")
    assert answer.status_code == 500
    assert answer.json()["detail"] == "internal error" and "witness" not in answer.text
    assert "witness" in capsys.readouterr().out


def test_token_file(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    token = ensure_token(settings)
    assert len(token) >= 32 and ensure_token(settings) == token
    path = settings.home / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in settings.home.iterdir()] == ["token"]
    assert ensure_token(replace(settings, token="mine")) == "mine"
    path.write_text("\n")
    with pytest.raises(ConfigError):
        ensure_token(settings)
