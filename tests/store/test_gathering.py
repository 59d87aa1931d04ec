"""Consumers that gather: windows, the latest, filters, many thousands that wait; judged on a real database."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ground import (
    Scheduler,
    change,
    claim_tasks,
    dag,
    declare,
    each,
    finish,
    healthy,
    members,
    one_of,
    pool,
    record,
    report,
    rows,
    together,
    together_all,
    until_quiet,
)

from onceflow.model.dagspec import AssetSchedule, Policy
from onceflow.model.event_filter import Verdict
from onceflow.scheduler import judge_consumers as judging
from onceflow.scheduler.judge_consumers import Judged, judge_consumers
from onceflow.store import deliveries, events
from onceflow.store.database import Database
from onceflow.store.versions import Versions

PROCESS = uuid.UUID(int=7)
WORKER = uuid.UUID(int=8)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


async def emit(database: Database, seconds: float, *assets: str, extra: str = "{}") -> list[int]:
    """An event of each asset, so many seconds after noon; their ids."""
    found = []
    for asset in assets:
        at = NOON + timedelta(seconds=seconds)
        [answer] = await events.record(database, [change(asset, extra=extra)], {}, now=at)
        found.append(answer.event_id)
    return found


async def look(database: Database, seconds: float) -> Judged:
    """What a scheduler does once, so many seconds after noon."""
    now = NOON + timedelta(seconds=seconds)
    found = await deliveries.find_consumers(database, 64, 0, now)
    async with database.transaction() as tx:
        return await judge_consumers(tx, PROCESS, await deliveries.claim(tx, found), Versions(), now)


async def dispositions(database: Database) -> dict[int, str]:
    return dict(await rows(database, "select event_id, disposition::text from delivery order by event_id"))  # type: ignore[arg-type]


async def work_off(database: Database) -> None:
    """Start, work and end every run there is."""
    scheduler = Scheduler(database)
    await scheduler.settle()
    while claimed := await claim_tasks(database, WORKER, 1):
        for task in claimed.values():
            await finish(database, WORKER, report(task))
        await scheduler.settle()


# Windows -------------------------------------------------------------------------------------------------------------


async def test_a_window_waits_for_quiet(database: Database) -> None:
    """taskforcesh/bullmq#3250: quiet, not throttled: each event begins the wait anew."""
    await declare(database, "a", "b", dag("d", one_of("a", "b", policy="window", quiet=10.0)))
    one, two = await emit(database, 0, "a") + await emit(database, 6, "b")
    assert (await look(database, 6)).again == {1: 10.0}
    await look(database, 15.9)
    assert await members(database) == []
    [three] = await emit(database, 15.9, "a")
    await look(database, 16)
    assert await members(database) == []
    assert await deliveries.find_consumers(database, 10, 0, NOON + timedelta(seconds=25.8)) == []
    await look(database, 25.9)
    assert await members(database) == [[one, two, three]]
    [explained] = (await rows(database, "select explanation::text from decision"))[0]
    assert json.loads(explained)["window"] | {"quiet": None} == {
        "quiet": None,
        "first_at": "2030-01-01T12:00:00.000000Z",
        "last_at": "2030-01-01T12:00:15.900000Z",
        "due_at": "2030-01-01T12:00:25.900000Z",
        "closed_by": "quiet",
    }
    assert await deliveries.find_consumers(database, 10, 0, NOON + timedelta(days=1)) == []
    await healthy(database)


async def test_a_window_waits_no_longer_than_it_may(database: Database) -> None:
    await declare(database, "a", dag("d", one_of("a", policy="window", quiet=10.0, max_wait=25.0)))
    sent = [e for s in range(0, 30, 5) for e in await emit(database, s, "a")]
    await look(database, 24)
    assert await members(database) == []
    await look(database, 25)
    assert await members(database) == [sent]
    await healthy(database)


async def test_a_full_window_does_not_wait(database: Database) -> None:
    """apache/airflow#55956: runs of a limited number of events; what is left has its window still."""
    await declare(database, "a", dag("d", one_of("a", policy="window", max_wait=60.0, max_size=3)))
    sent = [e for s in range(8) for e in await emit(database, s, "a")]
    judged = await look(database, 8)
    assert await members(database) == [sent[:3], sent[3:6]]
    assert judged.again == {1: 58.0}
    await look(database, 66)
    assert await members(database) == [sent[:3], sent[3:6], sent[6:]]
    await healthy(database)


async def test_a_full_window_over_joined_assets_has_one_of_each(database: Database) -> None:
    schedule = AssetSchedule(["and", [["asset", "a"], ["asset", "b"]]], "window", quiet=1000.0, max_size=3)
    await declare(database, "a", "b", dag("d", schedule))
    many = [e for _ in range(5) for e in await emit(database, 0, "a")]
    await look(database, 1)
    assert await members(database) == []
    [first, second] = await emit(database, 1, "b", "b")
    for _ in range(3):
        await look(database, 2)
    assert await members(database) == [[*many[:2], first], [*many[2:4], second]]
    assert (await dispositions(database))[many[4]] == "pending"
    await healthy(database)


async def test_a_thousand_that_wait_for_small_windows_are_worked_off_in_portions(database: Database) -> None:
    await declare(database, "a", dag("d", one_of("a", policy="window", max_wait=1.0, max_size=10)))
    for _ in range(3):
        await record(database, *(change("a") for _ in range(400)))
    scheduler = Scheduler(database)
    while await scheduler.judge.run_once():
        pass
    made = await members(database)
    assert [len(r) for r in made] == [10] * 120
    assert [e for r in made for e in r] == sorted(e for r in made for e in r)
    await healthy(database)


async def test_an_alarm_wakes_the_judge_when_a_window_ends(database: Database) -> None:
    """By the process that judged; the others look by themselves."""
    await declare(database, "a", dag("d", one_of("a", policy="window", quiet=0.3)))
    scheduler = Scheduler(database)
    woken = scheduler.role.wakeups.subscribe(("delivery",))
    await record(database, "a")
    await scheduler.judge.run_once()
    assert not woken.is_set() and not await scheduler.judge.run_once()
    async with asyncio.timeout(60):
        await woken.wait()
        while not await scheduler.judge.run_once():
            woken.clear()
            await woken.wait()
    assert len(await members(database)) == 1


async def test_glance_finds_a_window_whose_time_has_come(database: Database) -> None:
    """Whoever set the alarm may be dead."""
    await declare(database, "a", dag("d", one_of("a", policy="window", quiet=1000.0)))
    await emit(database, 0, "a")
    await look(database, 1)
    assert not (await rows_of_glance(database))["delivery"]
    await rows(database, "update dag set judge_at = clock_timestamp()")
    assert (await rows_of_glance(database))["delivery"]


async def rows_of_glance(database: Database) -> dict[str, bool]:
    found = await database.fetchrow("server/glance", True, 100)
    assert found is not None
    return dict(found)


# The latest ----------------------------------------------------------------------------------------------------------


LATEST = one_of("a", "b", policy="latest")


async def test_the_latest_starts_when_a_run_ends(database: Database) -> None:
    await declare(database, "a", "b", dag("d", LATEST, max_active_runs=1))
    first, *middle = await emit(database, 0, "a") + await emit(database, 1, "a", "a", "b")
    await look(database, 0)
    assert await members(database) == [[middle[1], middle[2]]]
    assert (await dispositions(database))[first] == "superseded"
    later = await emit(database, 2, "a", "a")
    assert not (await look(database, 3)).consumptions
    assert await deliveries.find_consumers(database, 10) == []
    assert {(await dispositions(database))[e] for e in later} == {"pending"}
    assert not (await rows_of_glance(database))["delivery"]
    await work_off(database)
    assert await members(database) == [[middle[1], middle[2]], [later[1]]]
    [(reason,)] = await rows(database, "select reason from delivery where event_id = $1", later[0])
    run_id = (await rows(database, "select run_id from run order by id desc limit 1"))[0][0]
    assert reason == f"event {later[1]} of the same asset is newer, and went into run {run_id}"
    await healthy(database)


async def test_the_end_of_a_run_wakes_the_judge_of_the_latest(database: Database) -> None:
    await declare(database, "a", dag("d", one_of("a", policy="latest"), max_active_runs=1))
    scheduler = Scheduler(database)
    await record(database, "a")
    await scheduler.settle()
    await record(database, "a")
    await scheduler.settle()
    [task] = (await claim_tasks(database, WORKER)).values()
    await finish(database, WORKER, report(task))
    woken = scheduler.role.wakeups.subscribe(("delivery",))
    await scheduler.advance.run_once()
    assert woken.is_set()
    assert (await rows_of_glance(database))["delivery"]
    await scheduler.judge.run_once()
    assert len(await members(database)) == 2


async def test_an_older_event_that_comes_later_gives_way(database: Database) -> None:
    """It was held for a while, and a newer one of its asset went into a run meanwhile."""
    await declare(database, "a", "b", dag("d", LATEST, max_active_runs=1))
    old, new = await emit(database, 0, "a", "a")
    await rows(
        database, "update delivery set disposition = 'held', judged = true, reason = 'x' where event_id = $1", old
    )
    await look(database, 1)
    await work_off(database)
    await rows(
        database, "update delivery set disposition = 'pending', judged = false, reason = null where event_id = $1", old
    )
    other = await emit(database, 2, "b")
    await look(database, 3)
    assert await members(database) == [[new], other]
    assert (await dispositions(database))[old] == "superseded"
    await healthy(database)


async def test_the_latest_of_joined_assets(database: Database) -> None:
    schedule = AssetSchedule(["and", [["asset", "a"], ["asset", "b"]]], "latest")
    await declare(database, "a", "b", dag("d", schedule, max_active_runs=1))
    old, new = await emit(database, 0, "a", "a")
    await look(database, 0)
    assert await members(database) == []
    [completing] = await emit(database, 0, "b")
    await look(database, 0)
    assert await members(database) == [[new, completing]]
    assert (await rows(database, "select start_event from run")) == [(completing,)]
    assert (await dispositions(database))[old] == "superseded"
    await healthy(database)


async def test_a_higher_cap_lets_the_latest_start(database: Database) -> None:
    """apache/airflow#73032: caps are counted when it matters, not remembered."""
    await declare(database, "a", dag("d", one_of("a", policy="latest"), max_active_runs=1))
    await record(database, "a")
    await Scheduler(database).settle()
    await record(database, "a")
    await Scheduler(database).settle()
    assert len(await members(database)) == 1
    await rows(database, "update dag set max_active_runs = 2")
    await Scheduler(database).settle()
    assert len(await members(database)) == 2


async def test_events_during_a_run_start_the_next_without_a_further_event(database: Database) -> None:
    """apache/airflow#56050: with max_active_runs=1, what came during a run waits for no other event, by any policy."""
    policies: dict[str, AssetSchedule] = {
        "each": each("a"),
        "all": one_of("a"),
        "latest": one_of("a", policy="latest"),
        "window": one_of("a", policy="window", max_wait=0.001),
    }
    await declare(database, "a", *(dag(p, s, max_active_runs=1, file="f.py") for p, s in policies.items()))
    await record(database, "a")
    await Scheduler(database).settle()
    await record(database, "a")
    await record(database, "a")
    await work_off(database)
    await work_off(database)
    counts = {p: [len(r) for r in await members(database, p)] for p in policies}
    assert counts["each"] == [1, 1, 1]
    assert counts["latest"] == [1, 1]
    assert sum(counts["all"]) == sum(counts["window"]) == 3
    assert await rows(database, "select 1 from delivery where disposition in ('pending', 'held')") == []
    await healthy(database)


# Filters -------------------------------------------------------------------------------------------------------------


PAID = {"a": ["==", "status", "paid"]}


@pytest.mark.parametrize("policy", ["each", "all", "window", "latest"])
async def test_a_filter_is_judged_first(database: Database, policy: Policy) -> None:
    """What is not wanted is filtered with the reason, and moves no window; the other asset has no filter."""
    await declare(database, "a", "b", dag("d", one_of("a", "b", policy=policy, quiet=10.0, filters=PAID)))
    [unpaid] = await emit(database, 0, "a", extra='{"status": "open"}')
    [paid] = await emit(database, 1, "a", extra='{"status": "paid"}')
    [late] = await emit(database, 9, "a", extra='{"status": null}')
    [bare] = await emit(database, 9, "a", extra="[]")
    await look(database, 11)
    assert await members(database) == [[paid]]
    found = dict(await rows(database, "select event_id, reason from delivery where disposition = 'filtered'"))  # type: ignore[arg-type]
    assert found == {
        unpaid: 'status == "paid" is not met: status is "open"',
        late: 'status == "paid" is not met: status is null',
        bare: 'status == "paid" cannot be judged: the payload has no field status',
    }
    [plain] = await emit(database, 20, "b")
    await look(database, 99)
    assert await members(database) == ([[paid], [plain]])
    await healthy(database)


async def test_a_filter_in_a_condition(database: Database) -> None:
    schedule = AssetSchedule(["and", [["asset", "a"], ["asset", "b"]]], "all", filters=PAID)
    await declare(database, "a", "b", dag("d", schedule))
    await emit(database, 0, "b")
    await emit(database, 0, "a", extra='{"status": "open"}')
    await look(database, 0)
    assert await members(database) == []
    await emit(database, 0, "a", extra='{"status": "paid"}')
    await look(database, 0)
    assert len(await members(database)) == 1
    await healthy(database)


ODD = ["{}", "[]", "null", '"x"', "5", '{"status": "\\u0000"}', '{"status": "\\ud800"}', '{"status": 1e999}']


@pytest.mark.parametrize("wanted", [[">", "status", 1], ["==", "status", "x"]])
@pytest.mark.parametrize("extra", ODD)
async def test_no_payload_harms_a_scheduler(database: Database, extra: str, wanted: list[Any]) -> None:
    await declare(database, "a", dag("d", one_of("a", policy="each", filters={"a": wanted})))
    await emit(database, 0, "a", extra=extra)
    await look(database, 0)
    assert list((await dispositions(database)).values()) == ["filtered"]


@pytest.mark.parametrize("policy", ["each", "all"])
async def test_a_payload_on_which_a_filter_fails_is_held_alone(
    database: Database, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(wanted: Any, payload: Any, source: Any = None) -> Verdict:
        return Verdict(bool(1 // payload["n"]))

    monkeypatch.setattr(judging, "judge_payload", judge)
    await declare(database, "a", dag("d", one_of("a", policy=policy, filters={"a": ["exists", "n", None]})))
    await record(database, *(change("a", extra=f'{{"n": {n}}}') for n in (1, 0, 1)))
    await Scheduler(database).settle()
    found = await rows(database, "select disposition::text, reason from delivery order by event_id")
    assert [d for d, _ in found] == (
        ["started", "held", "started"] if policy == "each" else ["started", "held", "joined"]
    )
    assert found[1][1] == "error: its filter failed: ZeroDivisionError: integer division or modulo by zero"
    await healthy(database)


async def test_a_filter_that_cannot_be_read_holds_its_consumer_only(database: Database) -> None:
    bad = one_of("a", policy="each", filters={"a": ["==", "status"]})
    good = one_of("a", policy="each", filters={"a": ["exists", "status", None]})
    await declare(database, "a", dag("bad", bad, file="f.py"), dag("good", good, file="f.py"))
    await emit(database, 0, "a", extra='{"status": 1}')
    await look(database, 0)
    found = await rows(database, "select disposition::text, reason from delivery order by dag_id")
    assert [d for d, _ in found] == ["held", "started"]
    assert found[0][1].startswith("error: ")


async def test_the_payload_of_an_event_is_read_once_for_all_its_consumers(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "PAYLOADS_AT_ONCE", 40)
    paid = one_of("a", policy="each", filters=PAID)
    await declare(database, "a", *(dag(f"d{n}", paid, file="f.py") for n in range(20)))
    read: list[int] = []
    for n in range(150):
        await emit(database, n, "a", extra=json.dumps({"status": "paid" if n % 2 else "open"}))

    async with database.transaction() as tx:
        fetch = tx.fetch

        async def counting(name: str, *args: Any) -> Any:
            found = await fetch(name, *args)
            if name == "events/payloads":
                read.extend(row["id"] for row in found)
            return found

        tx.fetch = counting  # type: ignore[method-assign]
        await judge_consumers(tx, PROCESS, await deliveries.claim(tx, range(1, 21)), Versions())
    assert len(read) == len(set(read)) == 150
    assert (await healthy(database))["by_disposition"] == {"started": 1500, "filtered": 1500}


async def test_payloads_are_read_so_many_at_a_time_as_are_not_too_large(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those stored compressed are counted as larger than they are stored; one that is too large comes alone."""
    monkeypatch.setattr(deliveries, "PAYLOAD_BYTES_AT_ONCE", 10_000)
    await declare(database, "a")
    texts = [random.Random(n).randbytes(1500).hex() for n in range(8)] + ["x" * 20_000] * 4
    texts[3] = random.Random(3).randbytes(20_000).hex()
    ids = [r.event_id for r in await record(database, *(change("a", extra=json.dumps({"n": t})) for t in texts))]
    trips: list[int] = []
    async with database.transaction() as tx:
        fetch = tx.fetch

        async def counting(name: str, *args: Any) -> Any:
            found = await fetch(name, *args)
            trips.append(len(found))
            return found

        tx.fetch = counting  # type: ignore[method-assign]
        found = [(event, payload["n"]) async for event, payload in deliveries.payloads(tx, reversed(ids))]
    assert found == list(zip(ids, texts, strict=True))
    assert trips[:3] == [3, 1, 3]
    assert max(trips) == 3


# Many that wait ------------------------------------------------------------------------------------------------------


async def test_a_condition_far_from_met_costs_what_it_is_large(database: Database) -> None:
    """Thousands wait of one asset: a further judgement reads the new event and one row per asset, not what waits."""
    await declare(database, "a", "b", dag("d", together("a", "b")))
    for _ in range(5):
        await record(database, *(change("a") for _ in range(1000)))
    judge = Scheduler(database).judge
    while await judge.run_once():
        pass
    await record(database, "a")
    async with database.transaction() as tx:
        [claimed] = await deliveries.claim(tx, [1])
        assert len(claimed.pending) == 1
        await deliveries.mark_judged(tx, [(1, claimed.pending[0].event_id)])
        surveyed = await deliveries.survey(tx, [1], 100)
        assert [w.count for w in surveyed[1].waiting.values()] == [100]
    while await judge.run_once():
        pass
    await record(database, "b")
    await judge.run_once()
    [made] = await members(database)
    assert len(made) == 5002
    assert (await healthy(database))["by_disposition"] == {"started": 1, "joined": 5001}
    [(explained,)] = await rows(database, "select explanation::text from decision")
    assert json.loads(explained)["pending"] == {"a": 5001, "b": 1}


@pytest.mark.parametrize("portion", [2_499, 50_000])
async def test_fifty_thousand_pending_events_are_one_run(
    database: Database, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    """airflow #69848: as many looks as there are portions; time and memory are in the benchmark "consume"."""
    monkeypatch.setattr(deliveries, "GATHERED_AT_ONCE", portion)
    await declare(database, "a", dag("d", one_of("a")))
    for _ in range(10):
        await record(database, *(change("a") for _ in range(5000)))
    judge, looks = Scheduler(database).judge, 0
    while await judge.run_once():
        looks += 1
    assert looks == {2_499: 20 + 1, 50_000: 1}[portion]  # a portion is one more than is known to be all
    assert (await healthy(database))["by_disposition"] == {"started": 1, "joined": 49_999}


@pytest.mark.parametrize("policy", ["all", "window", "latest"])
async def test_several_schedulers_lose_and_double_nothing(database_url: str, policy: Policy) -> None:
    """inngest/inngest#875, PR#1361, PR#1362: what keeps changes apart holds with every way to gather them."""
    how = {"quiet": 0.01, "max_wait": 0.1, "max_size": 7} if policy == "window" else {}
    async with pool(database_url, size=8) as database, pool(database_url, size=8) as outside:
        schedule = one_of("a", "b", policy=policy, filters={"a": ["!=", "n", 3]}, **how)
        await declare(database, "a", "b", dag("d", schedule, max_active_runs=2))
        over = asyncio.Event()

        async def emitter(n: int) -> None:
            dice = random.Random(n)
            for i in range(40):
                extra = json.dumps({"n": i % 5})
                await record(outside, *(change(dice.choice("ab"), f"{n}-{i}", extra) for _ in range(2)))

        async def emit_all() -> int:
            await together_all(*(emitter(n) for n in range(4)))
            over.set()
            return 0

        async def worker() -> int:
            while not over.is_set():
                for task in (await claim_tasks(outside, WORKER, 2)).values():
                    await finish(outside, WORKER, report(task))
                await scheduler.advance.run_once()
            return 0

        scheduler = Scheduler(outside)
        judges = [Scheduler(database).judge for _ in range(3)]
        await together_all(emit_all(), worker(), *(until_quiet(j.run_once, over) for j in judges))
        await work_off_until_none_waits(database)
        counted = await healthy(database)
        assert set(counted["by_disposition"]) <= {"started", "joined", "filtered", "superseded"}
        assert counted["events"] == counted["deliveries"] == sum(counted["by_disposition"].values())


async def work_off_until_none_waits(database: Database) -> None:
    while await rows(database, "select 1 from delivery where disposition = 'pending' limit 1"):
        await work_off(database)
