"""Recording changes: one event per change, whoever sees it and however often (G1, G2); nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime

import asyncpg
import pytest
from ground import (
    SOURCE,
    Gate,
    change,
    column,
    connected,
    dag,
    deadlocks,
    declare,
    each,
    healthy,
    pool,
    record,
    together_all,
    waits,
)

from onceflow.model.errors import NotFoundError
from onceflow.store import assets, events, statements
from onceflow.store.database import BAD_DATA, Database
from onceflow.store.events import Recorded

HELD_CLOCK = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


async def test_answers_come_in_the_order_given(database: Database) -> None:
    await declare(database, "a", "b")
    answers = await record(database, change("b", "1"), change("a", "1"), change("b", "2"), change("b", "1"))
    assert [r.status for r in answers] == ["stored", "stored", "stored", "duplicate"]
    assert answers[3].event_id == answers[0].event_id
    assert len({r.event_id for r in answers}) == 3


async def test_the_same_key_seen_by_many_at_once(database: Database) -> None:
    """dagster #9360, flyte #6577: one event; all others are its witnesses and know its id, before anything follows."""
    await declare(database, "a", dag("d", each("a")))
    answers = await together_all(*(record(database, change("a", "k", f'{{"n": {i // 4}}}')) for i in range(12)))
    assert Counter(r.status for [r] in answers) == {"stored": 1, "duplicate": 11}
    assert len({r.event_id for [r] in answers}) == 1
    rows = await _query(database, "select differs from witness")
    winner = await _query(database, "select extra from event")
    assert len(rows) == 11
    assert Counter(column(rows, "differs"))[True] == 8, winner  # those whose extra is not the event's
    counted = await healthy(database)
    assert (counted["events"], counted["deliveries"]) == (1, 1)


async def test_the_loser_finds_the_winner_it_waited_for(database_url: str) -> None:
    """The winner commits only after the loser has begun: a re-select in the same statement would not see it."""
    async with connected(database_url, "winner") as winner, pool(database_url, "loser") as loser:
        await declare(loser, "a")
        async with asyncio.TaskGroup() as group, winner.transaction(isolation="read_committed"):
            mine = await _record_raw(winner, loser, change("a", "k"))
            other = group.create_task(record(loser, change("a", "k")))
            await waits(winner, "loser")
        assert await other == [Recorded(mine, "duplicate")]


async def test_who_waits_for_one_that_gives_up_records_itself(database_url: str) -> None:
    async with connected(database_url, "first") as first, pool(database_url, "second") as second:
        await declare(second, "a")
        async with asyncio.TaskGroup() as group:
            transaction = first.transaction(isolation="read_committed")
            await transaction.start()
            await _record_raw(first, second, change("a", "k"))
            other = group.create_task(record(second, change("a", "k")))
            await waits(first, "second")
            await transaction.rollback()
        [answer] = await other
        assert answer.status == "stored"
        await healthy(second)


async def test_the_same_sighting_sent_again(database: Database) -> None:
    """An unknown COMMIT neither doubles nor loses: the repeat is recognised and is no witness."""
    await declare(database, "a", dag("d", each("a")))
    for key in ("k", None):
        again = change("a", key)
        [first] = await record(database, again)
        assert first.status == "stored"
        assert await record(database, again, again) == [Recorded(first.event_id, "repeated")] * 2
    assert await _query(database, "select 1 from witness") == []
    assert (await healthy(database))["events"] == 2


async def test_the_sighting_of_a_duplicate_sent_again_is_one_witness(database: Database) -> None:
    await declare(database, "a")
    [first] = await record(database, change("a", "k"))
    again = change("a", "k")
    for _ in range(3):
        assert await record(database, again) == [Recorded(first.event_id, "duplicate")]
    assert len(await _query(database, "select 1 from witness")) == 1


async def test_the_same_sighting_sent_by_two_connections_at_once(database: Database) -> None:
    """The first answer was lost while its transaction was still under way."""
    await declare(database, "a")
    again = change("a", None)
    answers = [r for [r] in await together_all(*(record(database, again) for _ in range(8)))]
    assert Counter(r.status for r in answers) == {"stored": 1, "repeated": 7}
    assert await _query(database, "select 1 from witness") == []


async def test_changes_without_a_key_are_never_the_same(database: Database) -> None:
    await declare(database, "a")
    answers = await record(database, *(change("a") for _ in range(50)))
    assert {r.status for r in answers} == {"stored"}
    assert len({r.event_id for r in answers}) == 50


async def test_duplicates_inside_a_batch(database: Database) -> None:
    await declare(database, "a", dag("d", each("a")))
    keys = random.Random(7).choices("abcde", k=200)
    answers = await record(database, *(change("a", k) for k in keys))
    by_key = {k: {r.event_id for r, other in zip(answers, keys, strict=True) if other == k} for k in "abcde"}
    assert all(len(ids) == 1 for ids in by_key.values())
    assert [r.status for r in answers] == [
        "duplicate" if k in keys[:i] else "stored" for i, k in enumerate(keys)
    ]  # the first of each in the order given
    assert len(await _query(database, "select 1 from witness")) == 195
    assert (await healthy(database))["deliveries"] == 5


async def test_the_same_key_on_two_assets_is_two_changes(database: Database) -> None:
    await declare(database, "a", "b")
    assert [r.status for r in await record(database, change("a", "k"), change("b", "k"))] == ["stored"] * 2


async def test_an_unknown_asset_in_a_batch_stores_nothing(database: Database) -> None:
    await declare(database, "a")
    with pytest.raises(NotFoundError, match="'nowhere'"):
        await record(database, "a", "nowhere")
    assert (await healthy(database))["events"] == 0


async def test_bad_data_stores_nothing_and_is_named_as_such(database: Database) -> None:
    await declare(database, "a")
    with pytest.raises(BAD_DATA):
        await record(database, change("a"), change("a", extra="{not json"))
    with pytest.raises(BAD_DATA):
        await record(database, change("a", "k" * 1025))
    assert (await healthy(database))["events"] == 0


async def test_a_witness_that_differs_is_flagged(database: Database) -> None:
    await declare(database, "a")
    await record(database, change("a", "k", '{"size": 1}'))
    await record(database, change("a", "k", '{"size": 1}'), change("a", "k", '{"size": 2}'))
    rows = await _query(database, "select differs from witness order by differs")
    assert column(rows, "differs") == [False, True]


async def test_witnesses_of_an_event_are_capped(database: Database) -> None:
    await declare(database, "a")
    for _ in range(3):
        await record(database, *(change("a", "hot") for _ in range(500)))
    [seen] = await _query(database, "select count(*) as n from witness")
    assert 999 <= seen["n"] < 1500
    answers = await record(database, change("a", "hot"))
    assert answers[0].status == "duplicate"
    assert await _query(database, "select count(*) as n from witness") == [seen]


async def test_events_are_numbered_in_the_order_of_commit(database: Database) -> None:
    """Many at once on one asset: no gap, no number twice, and ids rise with numbers."""
    await declare(database, "a")

    async def some(n: int) -> None:
        for i in range(10):
            await record(database, *(change("a", f"{n}-{i}-{j}") for j in range(n)))

    await together_all(*(some(n) for n in range(1, 6)))
    rows = await _query(database, "select id, seq from event order by seq")
    assert column(rows, "seq") == list(range(1, 151))
    assert column(rows, "id") == sorted(column(rows, "id"))


async def test_batches_over_several_assets_in_opposite_orders(database_url: str) -> None:
    """Assets are locked by id, whatever the order in the batch: nobody deadlocks."""
    names = [f"a{i}" for i in range(5)]
    chance = random.Random(20260101)
    orders = [chance.sample(names, len(names)) for _ in range(6)]
    async with pool(database_url, size=6) as database:
        await declare(database, *names, dag("all", each(*names)), path="all.py")

        async def emitter(order: list[str], seed: int) -> None:
            dice = random.Random(seed)
            for _ in range(40):
                await record(database, *(change(n, str(dice.randrange(60))) for n in order for _ in range(2)))

        await together_all(*(emitter(order, i) for i, order in enumerate(orders)))
        counted = await healthy(database)
        assert counted["events"] == counted["deliveries"] == 300
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0


async def test_recording_locks_no_consumer(database_url: str) -> None:
    """Whoever judges a consumer, however long, delays no event."""
    async with connected(database_url, "judge") as judge, pool(database_url, lease_seconds=1) as database:
        await declare(database, "a", dag("d", each("a")))
        async with judge.transaction(isolation="read_committed"):
            await judge.execute("select 1 from dag for no key update")
            assert [r.status for r in await record(database, "a")] == ["stored"]
        await healthy(database)


async def test_a_recorder_frozen_in_its_transaction_delays_others_for_half_a_lease(database_url: str) -> None:
    """It keeps the asset's row until the database cuts it off; nothing of it is stored."""
    async with connected(database_url, "frozen", lease_seconds=1.0) as frozen, pool(database_url) as database:
        await declare(database, "a")
        await frozen.execute("begin isolation level read committed")
        await _record_raw(frozen, database, change("a", "k"))
        assert [r.status for r in await record(database, change("a", "k"))] == ["stored"]
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
            await frozen.execute("commit")
        assert (await healthy(database))["events"] == 1


@pytest.mark.parametrize("subscribes", [True, False])
async def test_an_event_falls_on_one_side_of_the_subscription(database_url: str, subscribes: bool) -> None:
    """The recorder waits for the registration, so it obeys it, though its statement began before."""
    async with pool(database_url, "gated") as registering, pool(database_url, "recorder") as recorder:
        await declare(recorder, "a", dag("d", each("a") if not subscribes else None))
        await record(recorder, "a")
        operation = "insert" if subscribes else "update"
        async with Gate.at(database_url, "subscription", operation, "after") as gate, asyncio.TaskGroup() as group:
            change_of_mind = dag("d", each("a") if subscribes else None)
            group.create_task(declare(registering, "a", change_of_mind))
            await gate.reached()
            late = group.create_task(record(recorder, "a"))
            await gate.waits("recorder")
            await gate.open()
        delivered = await _query(recorder, "select 1 from delivery where event_id = $1", late.result()[0].event_id)
        assert len(delivered) == (1 if subscribes else 0)
        await healthy(recorder)


async def test_subscribing_again_before_any_event(database: Database) -> None:
    """The interval closed at the number it began with is opened again; no event falls between."""
    for schedule in (each("a"), None, each("a"), None, each("a")):
        await declare(database, "a", dag("d", schedule))
    rows = await _query(database, "select from_seq, until_seq from subscription")
    assert [tuple(r) for r in rows] == [(1, None)]
    await record(database, "a")
    assert (await healthy(database))["deliveries"] == 1


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_events_race_with_subscribing_and_unsubscribing(database_url: str, seed: int) -> None:
    """However they interleave, every event is delivered to exactly those subscribed at its number."""
    names = ["a", "b", "c"]
    dice = random.Random(seed)
    async with pool(database_url, size=6) as database:
        await declare(database, *names, path="assets.py")

        async def edits(which: int) -> None:
            choice = random.Random(seed * 10 + which)
            for _ in range(12):
                some = choice.sample(names, choice.randint(0, 3))
                await declare(database, *names, dag(f"d{which}", each(*some) if some else None))

        async def emitter() -> None:
            for _ in range(40):
                await record(database, *dice.sample(names, dice.randint(1, 3)))

        await together_all(edits(1), edits(2), emitter(), emitter())
        counted = await healthy(database)
        assert counted["events"] >= 80


async def test_the_clock_can_be_held(database: Database) -> None:
    await declare(database, "a", dag("d", each("a")))
    for _ in range(2):
        await events.record(database, [change("a", "k")], SOURCE, now=HELD_CLOCK)
    [event] = await _query(database, "select created_at from event")
    [witness] = await _query(database, "select seen_at from witness")
    assert event["created_at"] == witness["seen_at"] == HELD_CLOCK


async def test_pruned_identity_of_a_change_stays_with_the_arbiter(database: Database) -> None:
    """The change key, not the event, decides: without its event a change is still known."""
    await declare(database, "a")
    [first] = await record(database, change("a", "k"))
    await _query(database, "delete from event")
    again = await record(database, change("a", "k"))
    assert again == [Recorded(first.event_id, "duplicate")]


async def _record_raw(connection: asyncpg.Connection, database: Database, *changes: events.Change) -> int:
    """Record inside the connection's own transaction; the first event's id."""
    found = await assets.find(database, [c.asset for c in changes])
    rows = await connection.fetch(statements.text("events/record"), *events._arrays(changes, found, SOURCE), None)
    return rows[0]["event_id"]


async def _query(database: Database, text: str, *args: object) -> list[asyncpg.Record]:
    async with database._acquire() as raw:
        return await raw.fetch(text, *args)
