"""`why-not` tells what keeps a DAG from a run, and what was decided about it, from stored rows alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from onceflow.model.errors import NotFoundError
from onceflow.queries.dags import list_dags
from onceflow.queries.why import why_event
from onceflow.queries.why_not import why_not
from onceflow.store.runs import create_manual
from people import PROCESS, World

ORDERS = ["asset", "orders"]
BOTH = ["and", [ORDERS, ["asset", "prices"]]]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def because(world: World, dag_id: str) -> str:
    return "\n".join((await why_not(world.database, dag_id, LONG_AGO))["because"])


async def judgements(world: World) -> list[Any]:
    return [r[0] for r in await world.sql.fetch("select explanation::text from judgement order by id")]


async def test_an_input_is_missing(world: World) -> None:
    """airflow #62874, prefect #16545: the reason for not triggering is queryable, with each leaf's truth."""
    await world.dag("join", BOTH, policy="all")
    assert "nothing waits for it: orders never had an event; prices never had an event" in await because(world, "join")
    await world.emit("orders", "a")
    told = await because(world, "join")
    assert "no scheduler is running" in told and "waiting to be judged: 1 event" in told
    assert await world.judge("join") == []
    told = await because(world, "join")
    assert "orders & prices is not met, there is nothing of prices (judged at 2" in told
    assert "pending then: 1 of orders" in told and "prices never had an event" in told
    assert "1 event of orders, 0 events of prices" in told


async def test_a_run_by_hand_changes_nothing_about_what_waits(world: World) -> None:
    """airflow #55515: how many of its assets have an event is the same before and after it, and so is the next run."""
    await world.dag("join", BOTH, policy="all")
    await world.emit("orders", "a")
    assert await world.judge("join") == []

    async def shown() -> tuple[Any, ...]:
        told = await why_not(world.database, "join", LONG_AGO)
        lines = [line.partition(" (judged at")[0] for line in told["because"]]
        waiting = [line for line in lines if "1 event of orders" in line or "is not met" in line]
        [dag] = (await list_dags(world.database)).rows
        return waiting, dag["open_deliveries"], await world.sql.fetch("select * from delivery")

    before = await shown()
    assert len(before[0]) == 2 and before[1] == 1
    made = await create_manual(world.database, "join", by={})
    assert made is not None
    assert await world.judge("join") == []
    assert await shown() == before
    await world.start(made.id)
    await world.finish(made.id)
    assert await shown() == before
    await world.emit("prices", "p")
    [run] = await world.judge("join")
    assert await world.sql.fetchval("select count(*) from delivery where run_id = $1", run) == 2


async def test_a_verdict_is_kept_once(world: World) -> None:
    """A thousand events that change nothing about what is missing are one entry of the history."""
    await world.dag("join", BOTH, policy="all")
    for key in "abc":
        await world.emit("orders", key)
        assert await world.judge("join") == []
    assert len(await judgements(world)) == 1
    await world.emit("prices", "p")
    [run] = await world.judge("join")
    await world.emit("prices", "q")
    assert await world.judge("join") == []
    told = await why_not(world.database, "join", LONG_AGO)
    [later, decided, first] = [h for h in told["history"] if h["what"] not in ("version", "subscribed")]
    assert (first["what"], decided["what"], later["what"]) == ("judged", "decided", "judged")
    assert first["explanation"]["condition"]["items"][0]["holds"] and decided["runs"] == 1
    assert later["explanation"]["pending"] == {"prices": 1} and later["process"] == str(PROCESS)
    assert f"its last run is {await world.sql.fetchval('select run_id from run where id = $1', run)}" in "\n".join(
        told["because"]
    )


async def test_since_the_last_run(world: World) -> None:
    await world.dag("report", ORDERS)
    await world.emit("orders", "a")
    await world.judge("report")
    await world.emit("orders", "a")
    told = await why_not(world.database, "report")
    text = "\n".join(told["because"])
    assert told["since"] == f"{await world.sql.fetchval('select created_at from run'):%Y-%m-%dT%H:%M:%SZ}"
    assert "nothing waits for it" in text and "0 events of orders (1 more sighting of changes that were known)" in text


async def test_what_stands_in_the_way(world: World) -> None:
    """Pause with who, when and why; a cap; a broken file; a removed one."""
    dag = await world.dag("report", ORDERS, max_active_runs=1)
    pause = await world.sql.fetchval(
        "insert into intervention (dag_id, kind, by, reason) values ($1, 'pause', $2, 'audit') returning id",
        dag,
        '{"kind": "cli", "user": "ada", "host": "h"}',
    )
    await world.sql.execute("update dag set paused = true, pause_id = $1", pause)
    await world.emit("orders", "a")
    await world.judge("report")
    told = await because(world, "report")
    assert "it is paused, by ada on h by command at 2" in told and "(audit)" in told
    assert "1 event of orders: held because the DAG is paused" in told
    await world.sql.execute("update dag set paused = false")
    await world.emit("orders", "b")
    [run] = await world.judge("report")
    await world.start(run)
    await world.emit("orders", "c")
    await world.judge("report")
    assert "queued: 1 run, as many as max_active_runs allows are running (1)" in await because(world, "report")
    await world.sql.execute("""update dag_file set failure = '{"message": "invalid syntax"}'""")
    assert "its file report.py cannot be read since" in await because(world, "report")
    await world.sql.execute("update dag_file set present = false")
    await world.sql.execute("update dag set active = false")
    assert "no DAG file defines it: report.py was removed" in await because(world, "report")


async def test_a_window_that_is_open_and_a_filter(world: World) -> None:
    await world.dag("batch", ORDERS, policy="window", quiet=3600.0)
    await world.emit("orders", "a")
    assert await world.judge("batch") == []
    told = await because(world, "batch")
    assert "orders is met, but policy window waits" in told and "window: 3600 s of quiet; first event at 2" in told
    assert "it is judged again at 2" in told
    await world.sql.execute("update dag set paused = true")
    told = await because(world, "batch")
    assert "it is judged again when it is unpaused" in told and "it is judged again at 2" not in told
    [delivery] = (await why_event(world.database, 1))["deliveries"]
    assert delivery["because"].startswith("its DAG is paused; waiting: orders is met")


async def test_no_such_dag_and_no_schedule(world: World) -> None:
    await world.dag("report")
    assert "it runs only when it is triggered by hand" in await because(world, "report")
    with pytest.raises(NotFoundError, match="there is no DAG 'rapport'"):
        await why_not(world.database, "rapport")
