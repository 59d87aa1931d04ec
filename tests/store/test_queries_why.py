"""`why` tells from stored rows what was decided, and what an open delivery waits for."""

from __future__ import annotations

import pytest

from onceflow.model.errors import NotFoundError
from onceflow.queries.why import why_event, why_run
from onceflow.store.runs import create_manual
from people import World

ORDERS = ["asset", "orders"]
BOTH = ["and", [ORDERS, ["or", [["asset", "prices"], ["asset", "stock"]]]]]


async def text_id(world: World, run: int) -> str:
    return await world.sql.fetchval("select run_id from run where id = $1", run)


async def test_run_of_events(world: World) -> None:
    """dagster #28065: the explanation is the record of the decision, not a second judgement."""
    await world.dag("join", BOTH, policy="all")
    await world.emit("orders", "a")
    await world.emit("orders", "b")
    last = await world.emit("stock", "s")
    [run] = await world.judge("join")
    told = await why_run(world.database, "join", await text_id(world, run))
    text = "\n".join(told["because"])
    assert "for event 1 of asset orders" not in text and f"for event {last} of asset stock (key s)" in text
    assert "together with 2 more" in text
    assert "condition orders & (prices | stock) was met, by orders, stock, without prices" in text
    assert "pending then: 2 of orders, 1 of stock" in text
    assert "it is queued" in text
    assert [e["disposition"] for e in told["events"]] == ["joined", "joined", "started"]
    assert told["decision"]["explanation"]["policy"] == "all"
    before = told["decision"]
    await world.sql.execute("update dag set active = false, version_id = null")
    assert (await why_run(world.database, "join", await text_id(world, run)))["decision"] == before


async def test_runs_that_were_decided_together(world: World) -> None:
    """Which events happened to be judged at once is told, and is no reason of a run that is of one event."""
    await world.dag("each", ["or", [ORDERS, ["asset", "prices"]]])
    await world.emit("orders", "a")
    await world.emit("prices", "p")
    for run, asset in zip(await world.judge("each"), ("orders", "prices"), strict=True):
        text = "\n".join((await why_run(world.database, "each", await text_id(world, run)))["because"])
        assert f"condition orders | prices was met, by {asset}\n" in text
        assert "pending then: 1 of orders, 1 of prices" in text


async def test_run_by_hand(world: World) -> None:
    await world.dag("report", paused=True, max_active_runs=1)
    by = {"kind": "cli", "user": "ada", "host": "h"}
    made = await create_manual(world.database, "report", by=by)
    assert made
    told = await why_run(world.database, "report", made.run_id)
    assert "by ada on h by command" in told["because"][0]
    assert "the DAG is paused" in told["because"][-1]
    assert told["decision"] is None and told["events"] == []
    await world.sql.execute("update dag set paused = false")
    await world.start(made.id)
    second = await create_manual(world.database, "report", by=by)
    assert second
    told = await why_run(world.database, "report", second.run_id)
    assert "1 runs are running, max_active_runs is 1" in told["because"][-1]


async def test_event(world: World) -> None:
    """airflow #62874, #62929: why a DAG was not triggered can be asked, per consumer."""
    await world.dag("each", ORDERS)
    await world.dag("join", BOTH, policy="all")
    await world.dag("paused", ORDERS, paused=True)
    await world.dag("new", ORDERS)
    event = await world.emit("orders", "a", {"n": 1})
    await world.emit("orders", "a", {"n": 2})
    [run] = await world.judge("each")
    await world.judge("join")
    await world.sql.execute(
        "update delivery y set disposition = 'held', reason = 'pause', judged = true from dag d "
        "where d.id = y.dag_id and d.dag_id = 'paused'"
    )
    told = await why_event(world.database, event)
    assert "seen once more, which made no further event; 1 of them with another payload" in told["because"][1]
    because = {d["dag_id"]: d["because"] for d in told["deliveries"]}
    assert because["each"] == f"completed the condition and started run {await text_id(world, run)}, which is queued"
    assert "orders & (prices | stock) is not met, there is nothing of prices, stock" in because["join"]
    assert "onceflow dags unpause paused" in because["paused"]
    assert because["new"] == "not judged yet: no scheduler is running"
    [witness] = told["witnesses"]
    assert witness["differs"]


async def test_event_nobody_wants(world: World) -> None:
    await world.asset("orders")
    event = await world.emit("orders")
    told = await why_event(world.database, event)
    assert told["deliveries"] == [] and "no DAG was subscribed" in told["because"][-1]


async def test_what_is_not_there(world: World) -> None:
    await world.dag("report")
    with pytest.raises(NotFoundError):
        await why_event(world.database, 99)
    with pytest.raises(NotFoundError, match="runs list report"):
        await why_run(world.database, "report", "manual__x")


async def because(world: World, event: int) -> str:
    [delivery] = (await why_event(world.database, event))["deliveries"]
    return delivery["because"]


async def test_a_window_is_explained(world: World) -> None:
    """What it waits for, and afterwards what ended it."""
    await world.dag("report", ORDERS, policy="window", quiet=600.0, max_size=2)
    first = await world.emit("orders")
    assert await world.judge("report") == []
    told = await because(world, first)
    assert "window: 600 s of quiet, at most 2 events; first event at" in told and "it ends at" in told
    await world.emit("orders")
    [run] = await world.judge("report")
    sentences = (await why_run(world.database, "report", await text_id(world, run)))["because"]
    assert "policy window: the events that come close together into one run" in sentences
    assert any(s.startswith("window: 600 s of quiet, at most 2 events") and "it was full" in s for s in sentences)


async def test_the_latest_is_explained(world: World) -> None:
    await world.dag("report", ORDERS, policy="latest", max_active_runs=1)
    first, second = await world.emit("orders"), await world.emit("orders")
    [run] = await world.judge("report")
    assert (
        f": event {second} of the same asset is newer, and went into run {await text_id(world, run)}"
        in await because(world, first)
    )
    third = await world.emit("orders")
    await world.judge("report")
    assert (
        "as many runs as max_active_runs=1 allows are going on; when one ends the newest event starts"
        in await because(world, third)
    )


async def test_a_filter_is_explained(world: World) -> None:
    await world.dag("report", ORDERS, filters={"orders": ["==", "status", "paid"]})
    unpaid, paid = (
        await world.emit("orders", extra={"status": "open"}),
        await world.emit("orders", extra={"status": "paid"}),
    )
    [run] = await world.judge("report")
    assert (await because(world, unpaid)).endswith('status == "paid" is not met: status is "open"')
    assert (await because(world, unpaid)).startswith("filtered at ")
    assert "started run" in await because(world, paid)
    sentences = (await why_run(world.database, "report", await text_id(world, run)))["because"]
    assert 'filter on orders: status == "paid", which they passed' in sentences
