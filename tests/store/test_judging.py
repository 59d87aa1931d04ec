"""From deliveries to runs: one per change and consumer, judged on facts, by any number of schedulers (G3, G4, G7)."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable
from datetime import UTC, datetime

import asyncpg
import pytest
from ground import (
    Gate,
    Scheduler,
    change,
    connected,
    dag,
    deadlocks,
    declare,
    each,
    finish,
    healthy,
    members,
    pool,
    record,
    report,
    rows,
    together,
    together_all,
    until_quiet,
    without_result,
)

from onceflow.model.consume import Group
from onceflow.model.dagspec import TaskSpec
from onceflow.model.errors import OnceflowError
from onceflow.model.states import Outcome, TaskState
from onceflow.store import dags, deliveries, runs, statements, tasks
from onceflow.store.database import Database
from onceflow.store.deliveries import Consumption, Note
from support import eventually

PROCESS = uuid.UUID(int=7)
HELD_CLOCK = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


async def race(database: Database, judges: int, *emitters: Awaitable[None]) -> None:
    """Judge with several schedulers while the emitters emit, until all is judged."""
    over = asyncio.Event()

    async def emit_all() -> int:
        await together_all(*emitters)
        over.set()
        return 0

    schedulers = [Scheduler(database) for _ in range(judges)]
    await together_all(emit_all(), *(until_quiet(s.judge.run_once, over) for s in schedulers))


EARLY = """
    select r.id from run r join delivery y on y.run_id = r.id join dag d on d.id = r.dag_id
    where d.dag_id = $1 group by r.id having count(distinct y.asset_id) < $2
"""
NOT_COMPLETED_BY_ITS_START = """
    with first as (select run_id, asset_id, min(event_id) as event_id from delivery group by 1, 2)
    select r.id from run r where r.start_event <> (select max(f.event_id) from first f where f.run_id = r.id)
"""


@pytest.mark.parametrize("seed", [11, 12])
async def test_an_and_is_never_judged_early(database_url: str, seed: int) -> None:
    """Five assets, eight emitters, four judges: each run has all five, and starts with what made the condition true."""
    names = [f"a{i}" for i in range(5)]

    async def emitter(database: Database, n: int) -> None:
        dice = random.Random(seed * 100 + n)
        for i in range(40):
            some = dice.sample(names, dice.choice([1, 1, 1, 2, 5]))
            await record(database, *(change(a, f"{n}-{i}") for a in some))

    async with pool(database_url, size=8) as database, pool(database_url, size=8) as outside:
        await declare(database, *names, dag("d", together(*names)), dag("e", together(*names[:2])))
        await race(database, 4, *(emitter(outside, n) for n in range(8)))
        assert await rows(database, EARLY, "d", 5) == []
        assert await rows(database, EARLY, "e", 2) == []
        assert await rows(database, NOT_COMPLETED_BY_ITS_START) == []
        counted = await healthy(database)
        assert counted["runs"] > 10
        left = await rows(
            database,
            "select count(distinct y.asset_id) from delivery y join dag d on d.id = y.dag_id "
            "where d.dag_id = 'd' and y.disposition = 'pending'",
        )
        assert left[0][0] < 5
        assert await rows(database, "select 1 from delivery where disposition = 'pending' and not judged") == []


async def test_a_run_when_all_parents_changed_since_the_last_one(database: Database) -> None:
    """dagster#25145, #30992: that is `a & b & c`, which is consumed by `All()`, and no word more.

    What a run took is spent for the next one, however often a parent changed; what came after it is not.
    """
    await declare(database, "a", "b", "c", dag("d", together("a", "b", "c")))
    scheduler = Scheduler(database)

    async def runs_after(*assets: str) -> int:
        await record(database, *assets)
        await scheduler.settle()
        return len(await members(database))

    assert await runs_after("a", "a", "b") == 0, "c did not change yet"
    assert await runs_after("c") == 1
    assert await runs_after("a", "b") == 1, "c did not change since the last run"
    assert await runs_after("b", "b", "b") == 1
    assert await runs_after("c", "a") == 2
    assert await runs_after("c") == 2
    assert await runs_after("a", "b") == 3
    assert [len(events) for events in await members(database)] == [4, 7, 3]
    await healthy(database)


async def test_each_event_has_its_run_in_the_order_of_commit(database_url: str) -> None:
    """Four judges: one run per event, ordinals without a gap, and per asset in the order of its events."""

    async def emitter(database: Database, n: int) -> None:
        for i in range(40):
            await record(database, *(change("ab"[(n + i) % 2], f"{n}-{i}-{j}") for j in range(1 + i % 4)))

    async with pool(database_url, size=8) as database, pool(database_url, size=8) as outside:
        await declare(database, "a", "b", dag("d", each("a", "b")), dag("e", each("a")))
        await race(database, 4, *(emitter(outside, n) for n in range(6)))
        counted = await healthy(database)
        assert counted["by_disposition"] == {"started": counted["deliveries"]}
        out_of_order = """
            select 1 from run r join event e on e.id = r.start_event
            join run s on s.dag_id = r.dag_id and s.ordinal > r.ordinal
            join event f on f.id = s.start_event and f.asset_id = e.asset_id and f.seq < e.seq
        """
        assert await rows(database, out_of_order) == []
        gaps = "select dag_id from run group by dag_id having max(ordinal) <> count(*) or min(ordinal) <> 1"
        assert await rows(database, gaps) == []


async def test_more_events_than_a_batch_keep_their_order(database: Database) -> None:
    await declare(database, "a", dag("d", each("a")))
    for i in range(3):
        await record(database, *(change("a", f"{i}-{j}") for j in range(deliveries.PENDING_PER_CONSUMER // 2)))
    judge = Scheduler(database).judge
    assert [await judge.run_once() for _ in range(3)] == [True, True, False]
    assert (
        await rows(database, "select 1 from run r join event e on e.id = r.start_event where e.seq <> r.ordinal") == []
    )
    assert (await healthy(database))["runs"] == 750


async def test_a_late_commit_with_a_smaller_id_is_not_missed(database_url: str) -> None:
    """dagster #24650: what was judged is flagged by id, so what commits later is found, though its id is smaller."""
    async with connected(database_url, "late") as late, pool(database_url) as database:
        await declare(database, "a", "b", dag("d", together("a", "b")), dag("e", each("a", "b")))
        scheduler = Scheduler(database)
        ids = dict(await rows(database, "select name, id from asset"))
        transaction = late.transaction(isolation="read_committed")
        await transaction.start()
        sent = change("a")
        [first] = await late.fetch(
            statements.text("events/record"),
            *([ids["a"]], [sent.sighting], [sent.hash], [None], ["{}"], ["{}"], None, None, None),
        )
        [second] = await record(database, "b")
        assert first["event_id"] < second.event_id
        await scheduler.settle()
        judged = await rows(database, "select disposition::text, judged from delivery order by dag_id")
        assert judged == [("pending", True), ("started", True)]
        await transaction.commit()
        await scheduler.settle()
        done = await rows(database, "select dag_id, event_id, disposition::text from delivery order by 1, 2")
        assert done == [
            *((1, first["event_id"], "joined"), (1, second.event_id, "started")),
            *((2, first["event_id"], "started"), (2, second.event_id, "started")),
        ]
        await healthy(database)


async def test_what_a_run_took_is_spent(database: Database) -> None:
    """kestra PR#18307: after a run its condition begins anew; half of it and events of others start nothing."""
    await declare(database, "a", "b", "other", dag("d", together("a", "b")))
    scheduler = Scheduler(database)

    async def runs_after(*names: str) -> list[int]:
        await record(database, *names)
        await scheduler.settle()
        made = "select count(y.event_id) from run r join delivery y on y.run_id = r.id group by r.id order by r.id"
        return [events for (events,) in await rows(database, made)]

    assert await runs_after("a") == []
    assert await runs_after("b") == [2]
    for names in (["a"], ["other"], ["a", "a", "other"]):
        assert await runs_after(*names) == [2]
    assert await runs_after("b") == [2, 4]
    assert await runs_after("other") == [2, 4]
    await healthy(database)


async def test_what_happens_between_two_looks_is_all_there(database: Database) -> None:
    """kestra #15988: what changed twice between two looks of a scheduler is two changes, not the state they left.

    A task fails, is tried again and succeeds, and two of its runs tell of the same asset, while no scheduler looks.
    """
    await declare(database, "a", dag("p", None, TaskSpec("t", retries=1, outlets=("a",))), path="p.py")
    await declare(database, "a", dag("c", each("a")), path="c.py")
    known = dict(await rows(database, "select name, id from asset"))
    scheduler = Scheduler(database)
    for _ in range(2):
        await runs.create_manual(database, "p", by={})
    await scheduler.settle()
    for task in await tasks.claim(database, PROCESS, 2, 60.0):
        failed = report(task, TaskState.UP_FOR_RETRY, Outcome.FAILED, retry_seconds=0.0)
        assert await finish(database, PROCESS, failed) == ["finished"]
    await scheduler.advance.run_once()
    for task in await tasks.claim(database, PROCESS, 2, 60.0):
        assert await finish(database, PROCESS, report(task, changes=[change("a")]), assets=known) == ["finished"]
    await scheduler.settle()
    made = "select d.dag_id, r.state::text, count(*) from run r join dag d on d.id = r.dag_id group by 1, 2 order by 1"
    assert await rows(database, made) == [("c", "running", 2), ("p", "success", 2)]
    assert await rows(database, "select number, outcome::text, count(*) from attempt group by 1, 2 order by 1") == [
        (1, "failed", 2),
        (2, "success", 2),
    ]
    await healthy(database)


async def test_a_consumer_is_judged_by_one_at_a_time(database_url: str) -> None:
    """Who comes second sees nothing claimable, which is not the same as nothing to do."""
    async with pool(database_url, "gated") as first, pool(database_url) as second:
        await declare(second, "a", "b", dag("d", each("a")), dag("e", each("b")))
        await record(second, "a")
        async with Gate.at(database_url, "run", "insert") as gate, asyncio.TaskGroup() as group:
            group.create_task(Scheduler(first).judge.run_once())
            await gate.reached()
            other = Scheduler(second)
            assert not await other.judge.run_once()
            assert await deliveries.find_consumers(second, 10) == [1]
            await record(second, "b")
            assert await other.judge.run_once()  # the consumer that is free
            await gate.open()
        assert (await healthy(second))["runs"] == 2


async def test_a_judge_frozen_in_its_transaction_is_cut_off(database_url: str) -> None:
    """kestra #11434, #6889, #14393, #1466: what it locked is free by itself, nobody has to unlock anything.

    It keeps the consumer for half a lease at most; awake again, it can write nothing.
    """
    async with connected(database_url, "frozen", lease_seconds=1.0) as frozen, pool(database_url) as database:
        await declare(database, "a", dag("d", each("a")))
        await record(database, "a")
        judge = Scheduler(database).judge
        await frozen.execute("begin isolation level read committed")
        claimed = await frozen.fetch(statements.text("deliveries/claim"), [1], 10, 10, None, None)
        assert len(claimed) == 1
        assert not await judge.run_once()
        await eventually(judge.run_once, why="the frozen judge's lock is freed")
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
            await frozen.execute("commit")
        assert (await healthy(database))["runs"] == 1


async def test_a_judge_frozen_behind_a_pooler_by_transactions_is_cut_off_too(database_url: str) -> None:
    """The timeouts are set in each transaction, as no session keeps them."""
    frozen = await Database.connect(database_url, pooler="transaction", lease_seconds=1.0)
    async with frozen, pool(database_url) as database:
        await declare(database, "a", dag("d", each("a")))
        await record(database, "a")
        judge = Scheduler(database).judge
        with pytest.raises((asyncpg.PostgresError, OnceflowError)):
            async with frozen.transaction() as tx:
                assert len(await deliveries.claim(tx, [1])) == 1
                assert not await judge.run_once()
                await eventually(judge.run_once, why="the frozen judge's lock is freed")
        assert (await healthy(database))["runs"] == 1


async def consume(database: Database, *groups: Group, now: datetime | None = None) -> list[int]:
    async with database.transaction() as tx:
        return await deliveries.consume(tx, PROCESS, [Consumption(1, 1, groups, "{}")], now)


async def test_consuming_what_is_not_pending_any_more_writes_nothing(database: Database) -> None:
    """airflow #70972: the judged ids and the consumed ones are the same, or there is no run (OF002)."""
    await declare(database, "a", dag("d", each("a")))
    one, two, three = [r.event_id for r in await record(database, "a", "a", "a")]
    await consume(database, Group(one, (one,)))
    with pytest.raises(asyncpg.UniqueViolationError):
        await consume(database, Group(one, (one,)))
    with pytest.raises(OnceflowError, match="2 deliveries were judged, 1 were pending") as caught:
        await consume(database, Group(three, (one, three)))
    assert caught.value.code == "broken_invariant"
    assert (await healthy(database))["runs"] == 1
    assert await rows(database, "select count(*) from decision") == [(1,)]
    await consume(database, Group(three, (two, three)))
    assert (await healthy(database))["by_disposition"] == {"started": 2, "joined": 1}


async def test_an_event_cannot_be_in_two_runs(database: Database) -> None:
    await declare(database, "a", dag("d", each("a")))
    one, two = [r.event_id for r in await record(database, "a", "a")]
    with pytest.raises(OnceflowError, match="3 deliveries were judged, 2 were pending"):
        await consume(database, Group(one, (one, two)), Group(two, (two,)))
    assert (await healthy(database))["runs"] == 0


async def test_a_disposition_is_set_once(database: Database) -> None:
    """The database refuses a second one (OF003), whoever writes it."""
    await declare(database, "a", dag("d", each("a")))
    [event] = await record(database, "a")
    await Scheduler(database).judge.run_once()
    for change_ in (
        "disposition = 'discarded', run_id = null, reason = 'x'",
        "run_id = null",
        "disposition = 'pending'",
    ):
        with pytest.raises(OnceflowError, match=f"delivery of event {event.event_id} to dag 1 is already started"):
            await rows(database, f"update delivery set {change_}")
    await rows(database, "update delivery set judged = false")
    await healthy(database)


async def test_a_run_cannot_exist_without_its_delivery(database: Database) -> None:
    await declare(database, "a", dag("d"), dag("e", each("a")))
    [event] = await record(database, "a")
    with pytest.raises(OnceflowError, match="1 deliveries were judged, 0 were pending"):
        await consume(database, Group(event.event_id, (event.event_id,)))  # an event that was not delivered to this dag
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="run_start_event_dag_id_fkey"):
        await rows(
            database,
            "insert into run (dag_id, run_id, run_type, ordinal, start_event, created_by) "
            "values (1, 'x', 'asset_triggered', 1, $1, '{}')",
            event.event_id,
        )
    assert await rows(database, "select count(*) from run") == [(0,)]


async def test_a_paused_consumer_holds_and_gives_back(database: Database) -> None:
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", each("a")))
    await dags.pause(database, "d", by={})
    await record(database, "a", "a")
    await scheduler.settle()
    assert await rows(database, "select disposition::text, reason from delivery") == [("held", "pause")] * 2
    assert await deliveries.find_consumers(database, 10) == []
    unpaused = await dags.unpause(database, "d", by={})
    assert unpaused is not None and unpaused.released == 2
    await scheduler.settle()
    assert (await healthy(database))["by_disposition"] == {"started": 2}


async def test_a_judge_that_waits_for_no_pause_holds_what_comes_after_it(database_url: str) -> None:
    """The pause waits for the judge; what is delivered afterwards is held, what was judged has its run."""
    async with pool(database_url, "gated") as judging, pool(database_url, "pausing") as pausing:
        await declare(pausing, "a", dag("d", each("a")))
        [before] = await record(pausing, "a")
        async with Gate.at(database_url, "run", "insert") as gate, asyncio.TaskGroup() as group:
            group.create_task(Scheduler(judging).judge.run_once())
            await gate.reached()
            group.create_task(without_result(dags.pause(pausing, "d", by={})))
            await gate.waits("pausing")
            [after] = await record(judging, "a")
            await gate.open()
        await Scheduler(pausing).settle()
        found = await rows(pausing, "select event_id, disposition::text from delivery order by 1")
        assert found == [(before.event_id, "started"), (after.event_id, "held")]


@pytest.mark.parametrize("policy", ["each", "all"])
async def test_pausing_again_and_again_loses_nothing(database_url: str, policy: str) -> None:
    async with pool(database_url, size=8) as database, pool(database_url, size=4) as outside:
        schedule = each("a", "b") if policy == "each" else together("a", "b")
        await declare(database, "a", "b", dag("d", schedule))

        async def emitter() -> None:
            for _ in range(40):
                await record(outside, "a", "b")

        async def pauser() -> None:
            for _ in range(25):
                await dags.pause(outside, "d", by={})
                await dags.unpause(outside, "d", by={})

        await race(database, 3, emitter(), emitter(), pauser())
        await Scheduler(database).settle()
        counted = await healthy(database)
        assert set(counted["by_disposition"]) <= {"started", "joined"}
        assert sum(counted["by_disposition"].values()) == 160


async def test_a_consumer_that_cannot_be_judged_harms_no_other(database: Database) -> None:
    """Its deliveries are held with the reason; an edit of its file gives them back."""
    await declare(database, "a", dag("bad", each("a")), dag("good", each("a")), path="f.py")
    await record(database, "a")
    broken = "jsonb_set(spec::jsonb, '{schedule,condition}', '[\"asset\"]')::json"
    await rows(database, f"update dag_version set spec = {broken} where dag_id = 1")
    await Scheduler(database).settle()
    [(bad, reason), good] = await rows(database, "select disposition::text, reason from delivery order by dag_id")
    assert (bad, good) == ("held", ("started", None))
    assert reason.startswith("error: ")
    await declare(database, "a", dag("bad", each("a"), "edited"), dag("good", each("a")), path="f.py")
    await Scheduler(database).settle()
    assert (await healthy(database))["by_disposition"] == {"started": 2}


async def test_the_clock_can_be_held(database: Database) -> None:
    await declare(database, "a", dag("d", each("a")))
    one, two = [r.event_id for r in await record(database, "a", "a")]
    await consume(database, Group(one, (one,)), now=HELD_CLOCK)
    found = await rows(
        database,
        "select r.created_at, c.decided_at, y.decided_at, d.last_judged_at, r.run_id from run r "
        "join decision c on c.id = r.decision_id join delivery y on y.run_id = r.id join dag d on d.id = r.dag_id",
    )
    assert found == [(*[HELD_CLOCK] * 4, "asset_triggered__2030-01-02T03:04:05.678901+00:00_1")]
    async with database.transaction() as tx:
        await deliveries.mark_judged(tx, [(1, two)])
        await deliveries.note(tx, PROCESS, [Note(1, '{"why": 1}')], HELD_CLOCK.replace(year=2031))
    assert await rows(database, "select extract(year from last_judged_at), last_judgement::text from dag") == [
        (2031, '{"why": 1}')
    ]


async def test_judging_and_recording_do_not_deadlock(database_url: str) -> None:
    """Consumers in every order, batches over all assets."""
    names = [f"a{i}" for i in range(4)]
    async with pool(database_url, size=8) as database:
        await declare(database, *names, *(dag(f"d{i}", each(*names), file="f.py") for i in range(6)))

        async def emitter(n: int) -> None:
            for i in range(25):
                await record(database, *(change(a, f"{n}{i}") for a in (names if n % 2 else names[::-1])))

        await race(database, 4, *(emitter(n) for n in range(4)))
        counted = await healthy(database)
        assert counted["by_disposition"] == {"started": 4 * 25 * 4 * 6}
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0
