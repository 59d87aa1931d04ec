"""Pruning: what is old goes as a whole and step by step; what is open stays; a change that is told again is known."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from ground import (
    Scheduler,
    change,
    dag,
    declare,
    each,
    finish,
    healthy,
    pool,
    record,
    report,
    role,
    rows,
    together,
    together_all,
)

from onceflow.config import Settings
from onceflow.model.dagspec import AssetSchedule, AssetSpec, CronSchedule, FileSpec, WatcherSpec
from onceflow.model.errors import ConflictError
from onceflow.queries.why import why_event, why_run
from onceflow.scheduler.prune import Prune
from onceflow.store import dags, files, lanes, pruning, requests, runs, tasks, timed, watchers
from onceflow.store.database import Database

WORKER = uuid.UUID(int=1)
DAY = 86_400.0
MONTH = 30 * DAY


async def count(database: Database, *tables: str) -> list[int]:
    return [(await rows(database, f"select count(*) from {table}"))[0][0] for table in tables]


async def age(database: Database, days: int = 31) -> None:
    """All that is there happened so much earlier."""
    async with database._acquire() as raw:
        for table, columns in (
            ("event", ("created_at",)),
            ("run", ("created_at", "started_at", "finished_at", "logical_date")),
            ("request", ("created_at",)),
            ("expiring_key", ("expires_at",)),
        ):
            sets = ", ".join(f"{c} = {c} - make_interval(days => {days})" for c in columns)
            await raw.execute(f"update {table} set {sets}")


async def prune(database: Database, *, retention_days: float = 0) -> dict[str, int]:
    """One whole pass; what it pruned."""
    pruning_role = role(database)
    pruning_role.settings = Settings(database_url=database.url, retention_days=retention_days)
    service, counts = Prune(pruning_role), Counter[str]()
    while await service.run_once():
        counts = service._counts
    return dict(+counts)


async def finish_all(database: Database) -> None:
    """Everything that may run has run."""
    scheduler = Scheduler(database)
    await scheduler.settle()
    while claimed := await tasks.claim(database, WORKER, 100, 60.0):
        await finish(database, WORKER, *(report(t) for t in claimed))
        await scheduler.settle()


def orders(**rules: Any) -> AssetSpec:
    return AssetSpec("orders", where="orders.py:1", **rules)


async def test_an_old_event_goes_with_its_run_and_its_change_is_still_known(database: Database) -> None:
    await declare(database, orders(retention=MONTH), dag("d", each("orders"), max_active_runs=1000))
    await record(database, *(change("orders", f"k{n}") for n in range(3)), change("orders", "k0"))
    await finish_all(database)
    await age(database)
    await record(database, change("orders", "young"))
    assert await prune(database) == {"events": 3}
    assert await rows(database, "select key, seq from event") == [("young", 4)]
    assert await count(database, "run", "task", "attempt", "xcom", "witness", "change_key", "decision") == (
        [0, 0, 0, 0, 0, 4, 0]
    )
    again = await record(database, change("orders", "k1"), change("orders", "new"))
    assert [r.status for r in again] == ["duplicate", "stored"]
    await finish_all(database)
    assert (await healthy(database))["runs"] == 2


async def test_what_superseded_an_event_may_go_before_it(database: Database) -> None:
    """The older event is kept for another consumer; that it was superseded stays a fact."""
    newest = AssetSchedule(["asset", "orders"], "latest")
    await declare(database, orders(retention=DAY), dag("d", newest), path="d.py")
    await declare(database, orders(retention=DAY), dag("e", each("orders")), path="e.py")
    await record(database, change("orders", "old"))
    assert await files.register_removal(database, (await files.known(database))["e.py"])
    await record(database, change("orders", "new"))
    await finish_all(database)
    assert await rows(database, "select disposition::text from delivery order by event_id, dag_id") == [
        ("superseded",),
        ("held",),
        ("started",),
    ]
    await age(database)
    assert await prune(database) == {"events": 1}
    assert await rows(database, "select key from event") == [("old",)]
    await healthy(database)


async def test_what_is_open_stays_however_old(database: Database) -> None:
    """An event that is not consumed, one whose run is under way, one whose run ended just now."""
    await declare(database, orders(retention=DAY), dag("d", each("orders")), dag("e", each("orders"), file="e.py"))
    await record(database, change("orders", "held"))
    await dags.pause(database, "e", by={})
    await finish_all(database)
    await age(database)
    assert await prune(database) == {}
    await dags.unpause(database, "e", by={})
    scheduler = Scheduler(database)
    await scheduler.settle()
    assert await prune(database) == {}
    await finish_all(database)
    assert await prune(database) == {}
    await healthy(database)
    await age(database)
    assert await prune(database) == {"events": 1}
    assert await count(database, "event", "delivery", "run", "decision") == [0, 0, 0, 0]
    await healthy(database)


async def test_what_is_quarantined_waits_for_somebody(database: Database) -> None:
    schema = {"type": "object", "required": ["id"]}
    await declare(database, orders(retention=DAY, schema=schema))
    [bad] = await record(database, change("orders", "a"))
    await age(database)
    assert await prune(database) == {}
    [good] = await record(database, change("orders", "a", '{"id": 1}'))
    assert (good.event_id, good.status) == (bad.event_id, "released")
    assert await prune(database) == {"events": 1}
    await healthy(database)


async def test_a_run_goes_with_the_event_that_started_it(database: Database) -> None:
    """Others that joined it are kept for their own time, and say what became of it."""
    await declare(database, orders(retention=DAY), "prices", dag("join", together("orders", "prices")))
    await record(database, *(change("orders", f"k{n}") for n in range(5)))
    await record(database, "prices")  # starts a run
    await finish_all(database)
    await record(database, "prices")
    await record(database, *(change("orders", f"l{n}") for n in range(5)))  # l0 starts one
    await finish_all(database)
    await age(database)
    assert await prune(database) == {"events": 10}
    left = "select y.disposition::text, y.reason, r.start_event from delivery y left join run r on r.id = y.run_id"
    assert sorted(await rows(database, left)) == [("joined", "pruned", None), ("started", None, 6)]
    [told] = [d for e in (6, 7) for d in (await why_event(database, e))["deliveries"] if d["disposition"] == "joined"]
    assert told["because"] == "joined a run that was pruned when it was old"
    await healthy(database)
    assert await prune(database, retention_days=1) == {"events": 2}
    assert await count(database, "event", "run", "delivery", "decision") == [0, 0, 0, 0]
    await healthy(database)


async def test_a_run_that_lost_events_is_not_run_again_with_what_is_left(database: Database) -> None:
    """Exactly its events or not at all; what is left can be replayed, and a run that has all of them run again."""
    await declare(database, orders(retention=DAY), "prices", dag("join", together("orders", "prices")))
    await record(database, change("orders", "k1"), change("orders", "k2"))
    await record(database, "prices")  # starts the run
    await finish_all(database)
    await record(database, "prices")
    await record(database, change("orders", "l"))  # starts another one, and keeps its event
    await finish_all(database)
    await rows(database, "update event set created_at = created_at - interval '2 days' where key in ('k1', 'k2')")
    await rows(database, "update run set finished_at = finished_at - interval '2 days'")
    assert await prune(database) == {"events": 2}
    [(whole,), (poor,)] = await rows(database, "select run_id from run order by pruned_events")
    with pytest.raises(ConflictError, match=r"2 of the 3 events of run '.*' were pruned") as refused:
        await lanes.rerun(database, "join", poor, by={})
    assert "onceflow events replay --dag join --id 3" in refused.value.remedy
    assert "2 more of its events were pruned when they were old" in (await why_run(database, "join", poor))["because"]
    made = await lanes.rerun(database, "join", whole, by={"kind": "cli"})
    assert made is not None and await count(database, "run_member") == [2]
    await healthy(database)


async def test_runs_that_hold_each_other_s_start(database: Database) -> None:
    """The start of one run joined another, whose start joined the first one, and they are of two assets."""
    either = AssetSchedule(["or", [["asset", "orders"], ["asset", "prices"]]], "all")
    await declare(
        database, orders(retention=DAY), "prices", dag("both", together("orders", "prices")), dag("any", either)
    )
    await record(database, "orders")
    await record(database, "prices")
    await finish_all(database)
    assert await rows(database, "select count(*), count(distinct start_event) from run") == [(2, 2)]
    await age(database)
    assert await prune(database, retention_days=1) == {"events": 2}
    assert await count(database, "event", "run", "delivery", "decision") == [0, 0, 0, 0]
    await healthy(database)


async def test_more_events_of_one_run_than_a_step_takes(database: Database) -> None:
    """Those of another asset, which is kept, let go of the run so many at a time."""
    await declare(database, orders(retention=DAY), "prices", dag("join", together("prices", "orders")))
    await record(database, *(change("prices", f"k{n}") for n in range(2500)))
    await record(database, *(change("orders", f"k{n}") for n in range(250)))
    await finish_all(database)
    await age(database)
    assert await rows(database, "select count(*) from run") == [(1,)]
    steps = [await prune(database) for _ in range(4)]
    assert steps == [{"events": 249}, {}, {"events": 1}, {}]
    assert await count(database, "run", "decision") == [0, 0]
    assert await rows(database, "select reason, count(*) from delivery group by 1") == [("pruned", 2500)]
    await healthy(database)


async def test_open_events_do_not_keep_others(database: Database) -> None:
    """A pass goes on behind what stays."""
    await declare(database, orders(retention=DAY), "other", dag("d", together("orders", "other")))
    await record(database, *(change("orders", f"k{n}") for n in range(450)))
    await finish_all(database)
    await declare(database, orders(retention=DAY), dag("d"), path="d.py")
    await record(database, change("orders", "alone"))
    await age(database)
    assert await prune(database) == {"events": 1}
    assert await count(database, "event") == [450]
    await healthy(database)


async def test_an_identity_is_kept_for_its_time(database: Database) -> None:
    """The horizon is at least what was declared: it begins to count when the event is made, and needs it gone."""
    await declare(database, orders(retention=MONTH, protection=3 * MONTH))
    await record(database, change("orders", "a"), change("orders", "b"))
    await age(database, 31)
    assert await prune(database) == {"events": 2}
    assert await count(database, "event", "change_key", "expiring_key") == [0, 2, 2]
    assert [r.status for r in await record(database, change("orders", "a"))] == ["duplicate"]
    await age(database, 31)
    assert await prune(database) == {}
    await age(database, 31)
    assert await prune(database) == {"keys": 2}
    assert await count(database, "change_key", "expiring_key") == [0, 0]
    await healthy(database)
    [told] = await record(database, change("orders", "a"))
    assert told.status == "stored"
    await healthy(database)


async def test_an_identity_outlives_its_event_even_if_its_time_was_shorter(database: Database) -> None:
    await declare(database, orders(retention=2 * MONTH, protection=DAY))
    await record(database, change("orders", "a"))
    await age(database)
    assert await prune(database) == {}
    assert [r.status for r in await record(database, change("orders", "a"))] == ["duplicate"]
    await age(database)
    assert await prune(database) == {"events": 1, "keys": 1}
    await healthy(database)


async def test_identities_stay_when_they_are_to_be_kept_for_ever_by_now(database: Database) -> None:
    await declare(database, orders(retention=DAY, protection=MONTH))
    await record(database, change("orders", "a"))
    await age(database, 2)
    assert await prune(database) == {"events": 1}
    await declare(database, orders(retention=DAY))
    await age(database)
    await prune(database)
    assert [r.status for r in await record(database, change("orders", "a"))] == ["duplicate"]
    await healthy(database)


async def test_the_setting_holds_where_an_asset_says_nothing(database: Database) -> None:
    await declare(database, orders(retention=2 * MONTH), "others")
    await record(database, "orders", "others")
    await age(database)
    assert await prune(database) == {}
    assert await prune(database, retention_days=30) == {"events": 1}
    assert await rows(database, "select a.name from event e join asset a on a.id = e.asset_id") == [("orders",)]


async def test_runs_that_no_event_started_and_slots_that_stay_taken(database: Database) -> None:
    """timgit/pg-boss #592: declaring a schedule again runs no slot again, not even one whose run is gone."""
    await declare(database, dag("d"), dag("timed", CronSchedule("0 0 * * *"), file="d.py"), path="d.py")
    await runs.create_manual(database, "d", by={})
    [(timed_dag, slot)] = await rows(database, "select id, date_trunc('day', now()) from dag where dag_id = 'timed'")
    slots = [(timed_dag, slot - timedelta(days=n)) for n in range(3)]

    async def create() -> int:
        async with database.transaction() as tx:
            return await timed.create(tx, uuid.uuid4(), slots, [])

    assert await create() == 3
    await finish_all(database)
    async with database._acquire() as raw:
        await raw.execute("update run set finished_at = finished_at - interval '3 days'")
    assert await prune(database) == {}
    assert await prune(database, retention_days=1) == {"runs": 4}
    assert await create() == 0
    slots.append((timed_dag, slot + timedelta(days=1)))
    assert await create() == 1
    await healthy(database)


def fed(name: str, *urls: str) -> AssetSpec:
    """An asset with watchers of these."""
    specs = tuple(WatcherSpec(u, "t.Queue", {"url": u}, where="w.py:2") for u in urls)
    return AssetSpec(name, where="w.py:1", watchers=specs)


async def test_watchers_that_nobody_declares_go_and_those_that_return_go_on(database: Database) -> None:
    """A temporary removal keeps the cursor for the time of retention; a storm's record goes with the watcher."""

    await declare(database, fed("a", "gone", "back", "kept"), fed("b", "kept"), path="w.py")
    await rows(database, "update watcher set cursor = '7'")
    await rows(
        database,
        "insert into intervention (watcher_id, kind, pending, by) select id, 'release', 'each', '{}' from watcher",
    )
    await declare(database, fed("b", "kept"), path="w.py")
    left = "select kwargs ->> 'url', active from watcher order by 1"
    assert await rows(database, left) == [("back", False), ("gone", False), ("kept", True)]
    assert await prune(database) == await prune(database, retention_days=1) == {}
    await rows(database, "update watcher set active_since = active_since - interval '2 days'")
    await declare(database, fed("a", "back"), fed("b", "kept"), path="w.py")
    assert await rows(database, "select cursor::text, active from watcher where kwargs ->> 'url' = 'back'") == [
        ("7", True)
    ]
    assert await prune(database) == {}
    assert await prune(database, retention_days=1) == {"watchers": 1}
    assert await rows(database, left) == [("back", True), ("kept", True)]
    assert await count(database, "intervention", "watch") == [2, 3]
    await declare(database, fed("a", "back", "gone"), fed("b", "kept"), path="w.py")
    assert await rows(database, "select cursor, active from watcher where kwargs ->> 'url' = 'gone'") == [(None, True)]
    await healthy(database)


async def test_files_come_and_go_while_removed_watchers_are_pruned(database_url: str) -> None:
    """airflow#64659: two dag-processors, a triggerer and the pruner over the same watchers; nobody ever fails.

    At the end what is declared is there, once, and is claimed.
    """
    over = asyncio.Event()
    shared = fed("a", "x", "y"), fed("b", "y", "z")

    async def dag_processor(database: Database, path: str, asset: AssetSpec, dice: random.Random) -> int:
        done = 0
        for _ in range(60):
            file = await files.add(database, path)
            if dice.random() < 0.5:
                done += await files.register_removal(database, file)
            else:
                spec = FileSpec(path, uuid.uuid4().hex, (), (asset,))
                done += await files.register(database, file, spec, b"code", paused=False, parse_seconds=0.0)
        return done

    async def pruner(database: Database) -> int:
        gone = 0
        while not over.is_set():
            gone += await pruning.watchers(database, 0.0, 100)
        return gone

    async def triggerer(database: Database) -> int:
        claimed = 0
        while not over.is_set():
            mine = await watchers.claim(database, uuid.UUID(int=1), 100, take_over=True)
            await watchers.release(database, uuid.UUID(int=1), [(w.id, w.term) for w in mine])
            claimed += len(mine)
        return claimed

    async def both(database: Database) -> int:
        """Two that scan the same folder: one of both may lose, and each file goes its own way."""
        work = [
            dag_processor(database, f"{n}.py", shared[n], random.Random(10 * n + k)) for n in (0, 1) for k in (0, 1)
        ]
        done = await together_all(*work)
        over.set()
        return sum(done)

    async with pool(database_url, size=8) as database:
        registered, gone, claimed = await together_all(both(database), pruner(database), triggerer(database))
        assert registered > 60 and gone > 0 and claimed > 0
        for n, asset in enumerate(shared):
            await declare(database, asset, path=f"{n}.py")
        assert len(await watchers.claim(database, uuid.UUID(int=2), 100, take_over=True)) == 3
        await healthy(database)


async def test_old_judgements_are_forgotten(database: Database) -> None:
    await declare(database, "a", dag("d", each("a")))
    for days in (2, 3, 0):
        await rows(
            database,
            "insert into judgement (dag_id, judged_at, process_id, explanation) "
            f"values (1, now() - interval '{days} days', gen_random_uuid(), '{{}}')",
        )
    assert await pruning.judgements(database, 86_400, 1) == 1
    assert await pruning.judgements(database, 86_400, 100) == 1
    assert await rows(database, "select count(*) from judgement") == [(1,)]


async def test_answers_to_requests_are_forgotten(database: Database) -> None:
    one, other = uuid.uuid4(), uuid.uuid4()
    await requests.finish(database, one, one, 200, "{}")
    await age(database, 1)
    await requests.finish(database, other, other, 200, "{}")
    assert await prune(database) == {"requests": 1}
    assert (await requests.begin(database, other, other)).status == 200
    assert (await requests.begin(database, one, other)).status is None


@pytest.mark.parametrize("repeated", [True, False])
async def test_pruning_while_changes_are_recorded_and_told_again(database: Database, repeated: bool) -> None:
    """A witness never comes to an event that goes at the same time; every sighting has its answer."""
    await declare(database, orders(retention=0.0001), dag("d", each("orders"), max_active_runs=1000))
    over = asyncio.Event()

    async def tell() -> None:
        for n in range(60):
            answers = await record(database, *(change("orders", f"{n // 2 if repeated else n}.{i}") for i in range(5)))
            assert {a.status for a in answers} <= {"stored", "duplicate"}
        over.set()

    async def work() -> None:
        while not over.is_set():
            await finish_all(database)

    async def pruner() -> None:
        while not over.is_set():
            await prune(database)

    await together_all(tell(), work(), pruner(), pruner())
    await finish_all(database)
    await prune(database)
    assert await count(database, "change_key") == [150 if repeated else 300]
    assert await count(database, "event", "run", "delivery") == [0, 0, 0]
    await healthy(database)


async def test_a_step_is_bounded(database: Database) -> None:
    await declare(database, orders(retention=DAY))
    await record(database, *(change("orders", str(n)) for n in range(25)))
    [(asset,)] = await rows(database, "select id from asset")
    assert await pruning.events(database, asset, 0, DAY, 10) == (None, 0)
    await age(database)
    assert await pruning.events(database, asset, 0, DAY, 10) == (10, 10)
    assert await pruning.events(database, asset, 10, DAY, 10) == (20, 10)
    assert await pruning.events(database, asset, 20, DAY, 10) == (None, 5)
