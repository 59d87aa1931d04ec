"""A key that is declared identifies a change at every entrance: command and API, watcher, task's outlet."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from typing import Any

import pytest
from ground import (
    SOURCE,
    Scheduler,
    change,
    claim_tasks,
    dag,
    declare,
    each,
    healthy,
    record,
    report,
    rows,
    together_all,
)

from onceflow.executors import load
from onceflow.model.change import Change
from onceflow.model.dagspec import AssetSpec, WatcherSpec
from onceflow.model.errors import DagError, FencedError, InputError, StaleError
from onceflow.model.key import Key
from onceflow.model.message import MessageId
from onceflow.store import assets, events, runs, watchers
from onceflow.store.database import Database
from onceflow.store.emit import emit
from onceflow.store.events import Ownership, Recorded
from onceflow.store.watchers import OwnedWatcher

WORKER = uuid.UUID(int=1)
BY_ID = Key(("order.id",))
BY_CODE = Key(function="orders.by_id", file="orders.py")


def orders(key: Key | None = BY_ID, *own: tuple[str, Key | None], where: str = "orders.py", **more: Any) -> AssetSpec:
    """The asset, with watchers that have keys of their own."""
    specs = tuple(WatcherSpec(n, "triggers.Poll", {"n": n}, where=f"{where}:2", key=k) for n, k in own)
    return AssetSpec("orders", where=f"{where}:1", key=key, watchers=specs, **more)


def order(number: Any, **more: Any) -> str:
    return json.dumps({"order": {"id": number}} | more)


async def claimed(database: Database) -> dict[str, OwnedWatcher]:
    return {w.routes.routes[0].name: w for w in await watchers.claim(database, WORKER, 10, take_over=False)}


async def seen(database: Database, watcher: OwnedWatcher, *changes: Change) -> list[Recorded]:
    """What the watcher's trigger yielded."""
    [route] = watcher.routes.routes
    own = Ownership(watcher.id, WORKER, watcher.term, watcher.routes.number)
    keys = {route.asset: route.key} if route.key else {}
    return await events.record_if_owner(database, own, changes, SOURCE, cursor='"moved"', keys=keys)


async def test_one_change_at_every_entrance_is_one_event(database: Database) -> None:
    """A webhook, a poller and a task tell of one order, with its number as text, number and float."""
    await declare(
        database, orders(BY_ID, ("poll", None)), dag("make", None, "t"), dag("use", each("orders")), path="orders.py"
    )
    poll = (await claimed(database))["poll"]
    await runs.create_manual(database, "make", by={})
    await Scheduler(database).settle()
    task = (await claim_tasks(database, WORKER))["t"]
    executor = load("local", database, WORKER, 60.0)
    made = report(task, changes=[change("orders", None, order(42.0))])
    told = await together_all(
        *(emit(database, [change("orders", None, order("42", by=n))], SOURCE) for n in range(4)),
        *(seen(database, poll, change("orders", None, order(42))) for _ in range(4)),
    )
    assert await executor.finish([made]) == ["finished"]
    assert Counter(r.status for [r] in told) == {"stored": 1, "duplicate": 7}
    assert {r.key for [r] in told} == {"42"}
    assert await rows(database, "select key, seq from event") == [("42", 1)]
    assert await rows(database, "select count(*) from witness") == [(8,)]
    assert (await healthy(database))["deliveries"] == 1


async def test_a_key_that_the_change_brings_goes_before_the_declared_one(database: Database) -> None:
    await declare(database, orders())
    [answer] = await record(database, change("orders", "own", "{}"))
    assert (answer.status, answer.key) == ("stored", "own")


async def test_the_watcher_s_key_goes_before_the_asset_s(database: Database) -> None:
    await declare(database, orders(BY_ID, ("by sha", Key(("sha", "branch"))), ("by id", None)))
    owned = await claimed(database)
    payload = order(7, sha="abc", branch="a/b")
    [by_sha] = await seen(database, owned["by sha"], change("orders", None, payload))
    [by_id] = await seen(database, owned["by id"], change("orders", None, payload))
    assert (by_sha.key, by_id.key) == ("abc/a%2Fb", "7")
    assert (by_sha.status, by_id.status) == ("stored", "stored")


async def test_a_payload_without_the_field_is_refused_and_stores_nothing(database: Database) -> None:
    """Who can be told is told; a watcher cannot, see test_keyless.py."""
    await declare(database, orders())
    with pytest.raises(InputError, match=r"no field 'order.id'; it has ordr") as caught:
        await record(database, change("orders", None, order(1)), change("orders", None, '{"ordr": {"id": 2}}'))
    assert caught.value.where == "asset 'orders' with key=order.id"
    assert (await healthy(database))["events"] == 0


async def test_an_outlet_s_payload_without_the_field_is_the_attempt_s_failure(database: Database) -> None:
    """The executor refuses the report by name; the worker fails that attempt with the reason (worker/finish.py)."""
    await declare(database, orders(), dag("make", None, "t"), path="orders.py")
    await runs.create_manual(database, "make", by={})
    await Scheduler(database).settle()
    task = (await claim_tasks(database, WORKER))["t"]
    executor = load("local", database, WORKER, 60.0)
    with pytest.raises(InputError, match="it is an empty object"):
        await executor.finish([report(task, changes=[change("orders", None, "{}")])])
    assert await rows(database, "select state::text from task") == [("running",)]


async def test_an_emit_without_key_where_a_function_makes_it_is_refused(database: Database) -> None:
    await declare(database, orders(BY_CODE))
    with pytest.raises(InputError, match=r"the function orders.by_id, which is code of orders.py") as refused:
        await emit(database, [change("orders", None, order(1))], SOURCE)
    assert "--key" in refused.value.remedy
    assert [r.status for r in await emit(database, [change("orders", "1", order(1))], SOURCE)] == ["stored"]


async def test_the_guest_of_a_watcher_is_told_where_its_key_function_is(database: Database) -> None:
    own = Key(function="orders.mine", file="orders.py")
    await declare(database, orders(BY_CODE, ("own", own), ("path", BY_ID), ("asset's", None)))
    routes = {n: w.routes.routes[0] for n, w in (await claimed(database)).items()}
    assert {n: r.key_file for n, r in routes.items()} == {"own": "orders.py", "path": "", "asset's": "orders.py"}
    assert {n: r.key for n, r in routes.items()} == {"own": own, "path": BY_ID, "asset's": None}


async def test_an_edited_key_concerns_the_very_next_record(database: Database) -> None:
    """A path is data and read anew; a function is code, for which the watcher starts again from its cursor."""
    await declare(database, orders(None, ("poll", None)))
    poll = (await claimed(database))["poll"]
    await seen(database, poll, change("orders", "k"))
    for edited, restarts in (
        (orders(None, ("poll", BY_ID)), 0),
        (orders(None, ("poll", Key(("sha",)))), 0),
        (orders(BY_CODE, ("poll", None)), 1),
    ):
        [(generation, routing)] = await rows(database, "select generation, routing from watcher")
        await declare(database, edited)
        after = await rows(database, "select generation, routing, cursor::text from watcher")
        assert after == [(generation + restarts, routing + 1, '"moved"')]
        with pytest.raises((StaleError, FencedError)):
            await seen(database, poll, change("orders", "k2"))


async def test_a_path_of_the_asset_is_read_at_once(database: Database) -> None:
    """It is data, read with every record, so that no process has to be told."""
    await declare(database, orders(None, ("poll", None)))
    poll = (await claimed(database))["poll"]
    assert [r.key for r in await seen(database, poll, change("orders", None, order(1)))] == [None]
    await declare(database, orders(BY_ID, ("poll", None)))
    assert [r.key for r in await seen(database, poll, change("orders", None, order(1)))] == ["1"]


async def test_files_may_leave_the_key_to_one_of_them(database: Database) -> None:
    await declare(database, orders(), path="orders.py")
    await declare(database, orders(None, outlet=True), path="uses.py")
    assert (await assets.find(database, ["orders"]))["orders"].rules.key == BY_ID
    await declare(database, path="orders.py")
    assert (await assets.find(database, ["orders"]))["orders"].rules.key is None


async def test_two_keys_of_one_asset_are_named_with_both_places(database: Database) -> None:
    await declare(database, orders(), path="orders.py")
    with pytest.raises(DagError, match=r"other rules in orders.py \(orders.py:1\): key order\.id \(declare") as refused:
        await declare(database, orders(Key(("sha",)), where="two.py"), path="two.py")
    assert (refused.value.where, refused.value.code) == ("two.py:1", "conflict")


async def test_a_shared_key_function_is_one_rule(database: Database) -> None:
    """Both files import the asset from one module: each names itself as the file to load."""
    await declare(database, orders(BY_CODE), path="orders.py")
    await declare(database, orders(Key(function="orders.by_id", file="two.py"), outlet=True), path="two.py")
    assert (await assets.find(database, ["orders"]))["orders"].rules.key == BY_CODE


@pytest.mark.parametrize("first", ["function", "outlet"])
async def test_an_entrance_without_the_key_function_is_refused(database: Database, first: str) -> None:
    """Its changes could not be given their key there; whichever file comes second is told."""
    declared = {"function": orders(BY_CODE), "outlet": orders(None, outlet=True)}
    await declare(database, declared.pop(first), path=f"{first}.py")
    [(other, spec)] = declared.items()
    with pytest.raises(DagError, match=f"in one file, and here or in {first}.py"):
        await declare(database, spec, path=f"{other}.py")


async def test_a_redelivered_message_is_the_same_change(database: Database) -> None:
    """airflow #64205: the event carries topic, partition and offset; telling of an offset again does nothing."""
    await declare(database, orders(None, ("kafka", None)))
    kafka = (await claimed(database))["kafka"]

    def message(offset: int, epoch: int = 1) -> Change:
        told = MessageId("kafka://prod/orders/3", offset, epoch)
        return Change("orders", order(offset), None, uuid.uuid4(), told)

    for _ in range(3):
        await seen(database, kafka, *(message(n) for n in range(5)))
    await seen(database, kafka, message(0, epoch=2))  # the topic was made anew
    stored = await rows(database, "select source->'message'->>'id', source->'message'->>'epoch' from event order by id")
    assert stored == [("0", "1"), ("1", "1"), ("2", "1"), ("3", "1"), ("4", "1"), ("0", "2")]
    assert await rows(database, "select count(*) from witness") == [(10,)]
    await healthy(database)
