"""One change is one run, though a webhook, a poller and redeliveries tell of it in their own ways."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from onceflow.queries.rows import Row
from support import eventually
from system import System

CHANGES = 200
READY = re.compile("^ready (.*)$", re.MULTILINE)
AT_ONCE = 8

SHOP = """
    import json
    from pathlib import Path
    from onceflow import DAG, Asset, AssetWatcher, TriggerEvent, task
    from onceflow.sources.poll import poll_trigger

    @poll_trigger(interval=0.2)
    async def all_orders(cursor, path):
        "Without a cursor: every poll tells of every order again, as a source does that redelivers."
        lines = Path(path).read_text().splitlines()
        return [TriggerEvent({{"order": json.loads(line)}}) for line in lines], None

    orders = Asset("orders", key="order.id", watchers=[AssetWatcher("shop", trigger=all_orders(path={path!r}))])

    with DAG("ship", schedule=orders, max_active_runs=64):
        @task
        def ship(triggering_asset_events):
            [[event]] = triggering_asset_events.values()
            return event.key
        ship()
"""


async def test_a_webhook_a_poller_and_a_redelivery_of_one_change_make_one_event(
    tmp_path: Path, database_url: str
) -> None:
    """argo-events #3326, flyte #6577, airflow #53615: 200 orders, each told by a poller again and again, and by two
    posts of one request; the webhook writes the number as text, the poller as number.
    """
    shop = tmp_path / "orders.jsonl"
    shop.touch()
    async with System(tmp_path, database_url, schedulers=2, triggerers=2) as system:
        await system.sound("shop.py", SHOP.format(path=str(shop)))
        async with await client(system) as api:
            answers = await tell_of_everything(shop, api)
        runs = await system.finished("ship", CHANGES)
        events = await eventually(lambda: all_seen_by_the_poller(system), every=0.5, why="the poller to see all")

        assert Counter(e["key"] for e in events) == Counter(str(n) for n in range(CHANGES))
        assert Counter(e for r in runs for e in r["events"]) == Counter(e["id"] for e in events)
        for once, again in answers:
            assert (once.status_code, again.status_code) == (200, 200)
            assert once.json()["id"] == again.json()["id"]
        await system.verify()


async def tell_of_everything(shop: Path, api: httpx.AsyncClient) -> list[list[httpx.Response]]:
    """Place the orders; the answers to the two posts of each."""
    room = asyncio.Semaphore(AT_ONCE)

    async def place(number: int) -> list[httpx.Response]:
        body = {"name": "orders", "extra": {"order": {"id": str(number)}, "by": "webhook"}}
        async with room:
            with shop.open("a") as file:
                file.write(json.dumps({"id": number}) + "\n")
            headers = {"Idempotency-Key": f"request {number}"}
            return [await api.post("/api/v2/assets/events", json=body, headers=headers) for _ in range(2)]

    return list(await asyncio.gather(*(place(n) for n in range(CHANGES))))


async def all_seen_by_the_poller(system: System) -> list[Row]:
    events = await system.events("orders")
    assert len(events) == CHANGES
    assert all(e["witnesses"] >= 2 for e in events)
    assert {e["source"]["kind"] for e in events} <= {"api", "watcher"}
    return events


async def client(system: System) -> httpx.AsyncClient:
    """A client of the system's API."""
    said = await eventually(lambda: READY.search(system.output.read_text()), why="the API server serves")
    headers = {"Authorization": f"Bearer {(system.home / 'token').read_text().strip()}"}
    return httpx.AsyncClient(base_url=said[1], headers=headers, timeout=30)


CODE = """
    from onceflow import DAG, Asset, AssetWatcher, MessageId, TriggerEvent, task
    from onceflow.sources.poll import poll_trigger

    @poll_trigger(interval=0.2)
    async def numbers(cursor, queue=""):
        seen = cursor or 0
        return [TriggerEvent({"no": seen + 1})] if seen < 3 else [], min(seen + 1, 3)

    def by_number(payload):
        return "number", payload["no"] + 0 // (payload["no"] - 2)

    polled = Asset("polled", key=by_number, watchers=[AssetWatcher("w", trigger=numbers())])
    pathless = Asset("pathless", key="id", watchers=[AssetWatcher("w", trigger=numbers(queue="other"))])

    @poll_trigger(interval=0.2)
    async def queue(cursor):
        return [TriggerEvent({}, message_id=MessageId("amqp://prod/q", "m-1", epoch=2))], None

    queued = Asset("queued", watchers=[AssetWatcher("w", trigger=queue())])
    sums = Asset("sums", key=lambda payload: payload["day"])

    with DAG("add", schedule=None, params={"day": ""}):
        @task(outlets=[sums])
        def add(outlet_events, params):
            outlet_events[sums].extra = {"day": params["day"]} if params["day"] else {}
        add()

    with DAG("use", schedule=polled | sums):
        @task
        def use():
            pass
        use()
"""


async def test_a_key_function_runs_in_guests_and_says_what_is_wrong(tmp_path: Path, database_url: str) -> None:
    """A function of the payload, in the process of the trigger and of the task. What it cannot tell apart is nobody's
    loss: of a watcher it is in quarantine, and its neighbours go on; the task fails; the command wants a key.
    """
    async with System(tmp_path, database_url, triggerers=1) as system:
        await system.sound("code.py", CODE)
        flaws = await eventually(lambda: flawed(system), every=0.1, why="what gives no key is in quarantine")
        assert "key function by_number of asset 'polled' failed: ZeroDivisionError" in flaws["polled"]
        assert "the payload has no field 'id'; it has no" in flaws["pathless"]
        await system.finished("use", 2)
        polled = await system.events("polled")
        assert [e["key"] for e in polled] == ["number/1", None, "number/3"]
        assert all(w["strikes"] == 0 for w in await system.watchers())
        fixed: Any = await system.json("events", "fix", str(polled[1]["id"]), "--as-is", "--key", "number/2")
        assert fixed == {"event_id": polled[1]["id"], "key": "number/2", "same_as": None}
        await system.finished("use", 3)

        assert (await system.run("add", {"day": "monday"}))["state"] == "success"
        run = await system.run("add")
        assert run["state"] == "failed"
        [attempt] = await system.attempts("add", run["run_id"])
        assert "of outlet 'sums' failed: KeyError: 'day'" in attempt["error"]["message"]
        refused = await system.cli("assets", "emit", "sums", "--extra", '{"day": "monday"}')
        assert refused.returncode == 2 and "--key" in refused.stderr and "code.py" in refused.stderr
        told: Any = await system.json("assets", "emit", "sums", "--key", "monday")
        assert told["status"] == "duplicate"
        assert [e["key"] for e in await system.events("sums")] == ["monday"]
        await system.finished("use", 4)
        [told] = await eventually(lambda: delivered_again(system), every=0.1, why="the message is delivered again")
        assert told["source"]["message"] == {"source": "amqp://prod/q", "id": "m-1", "epoch": 2}
        await system.verify()


async def flawed(system: System) -> dict[str, str]:
    """What is wrong with what is in quarantine, by asset; of one asset there are three."""
    found: list[Row] = await system.json("events", "list", "--quarantined")
    assert Counter(e["asset"] for e in found) == {"polled": 1, "pathless": 3}
    return {e["asset"]: e["flaw"] for e in found}


async def delivered_again(system: System) -> list[Row]:
    events = await system.events("queued")
    assert [e["witnesses"] > 2 for e in events] == [True]
    return events
