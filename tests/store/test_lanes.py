"""The lanes of people: run again, replay, discard, release, each with who and why; and loops, that are held."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from ground import (
    Scheduler,
    change,
    dag,
    declare,
    each,
    healthy,
    one_of,
    record,
    rows,
    together,
)

from onceflow.executors import load
from onceflow.model.dagspec import AssetSchedule, CronSchedule, Policy, TaskSpec
from onceflow.model.errors import ConflictError, InputError, NotFoundError
from onceflow.model.replay import Downstream
from onceflow.queries.runs import list_runs, show_run
from onceflow.queries.why import why_event, why_run
from onceflow.store import interventions, lanes, pruning, runs
from onceflow.store.database import Database
from onceflow.store.interventions import Scope
from onceflow.store.lanes import Choice
from onceflow.store.versions import Versions
from onceflow.worker.outcome import Ending
from onceflow.worker.outcome import report as ended

ANNA: dict[str, Any] = {"kind": "cli", "user": "anna", "host": "here"}
WORKER = uuid.UUID(int=7)


async def event_ids(database: Database, *names: str) -> list[int]:
    return [r.event_id for r in await record(database, *names)]


async def runs_of(database: Database, dag_id: str, run_type: str | None = None) -> list[tuple[str, list[int]]]:
    found = (await list_runs(database)).rows
    return [
        (r["run_type"], r["events"])
        for r in found
        if r["dag_id"] == dag_id and (run_type is None or r["run_type"] == run_type)
    ]


async def only_run(database: Database, dag_id: str) -> str:
    [run] = [r for r in (await list_runs(database)).rows if r["dag_id"] == dag_id]
    return run["run_id"]


async def ledger(database: Database) -> list[tuple[Any, ...]]:
    """Everything that is stored of deliveries."""
    return await rows(database, "select y::text from delivery y order by event_id, dag_id")


async def dispositions(database: Database) -> list[tuple[str, str | None]]:
    found = await rows(database, "select disposition::text, reason from delivery order by event_id, dag_id")
    return [(d, r) for d, r in found]


async def work(database: Database, scheduler: Scheduler) -> int:
    """Finish all tasks as a worker would, a success each with an event of their outlets; how many there were."""
    executor, versions, count = load("local", database, WORKER, 60.0), Versions(), 0
    await scheduler.settle()
    while claimed := await executor.claim(100):
        known = await versions.read(database, {t.version for t in claimed})
        for task in claimed:
            outlets = known[task.version].spec.task(task.task_id).outlets
            result = {"outcome": "success", "events": [{"asset": name, "extra": {}} for name in outlets]}
            done = ended(task, known[task.version].graph, Ending(result, 0))
            assert await executor.finish([done]) == ["finished"]
            count += 1
        await scheduler.settle()
    return count


# Run again ----------------------------------------------------------------------------------------------------------


async def test_a_rerun_has_exactly_the_events_of_its_run(database: Database) -> None:
    """inngest#2427: the re-run of a batch has all of its events, not one; and it is no second run of them."""
    scheduler = Scheduler(database)
    await declare(database, "a", "b", dag("d", together("a", "b")))
    events = await event_ids(database, "a", "a", "b")
    await scheduler.settle()
    before = await ledger(database)
    original = await only_run(database, "d")
    await event_ids(database, "a")
    made = await lanes.rerun(database, "d", original, by=ANNA, reason="wrong rate")
    assert made is not None and made.run_id.startswith("rerun__")
    await scheduler.settle()
    assert (await ledger(database))[: len(before)] == before
    again = await show_run(database, "d", made.run_id)
    assert (again["events"], again["state"], again["of_run"]) == (events, "running", original)
    assert (again["reason"], again["created_by"], again["downstream"]) == ("wrong rate", ANNA, "emit")
    async with database._acquire() as raw:
        given = await raw.fetch("select id from run_member join event on id = event_id order by id")
    assert [r["id"] for r in given] == events
    told = (await why_run(database, "d", made.run_id))["because"]
    assert f"by anna on here by command: run {original} again, with exactly its events, because: wrong rate" in told[0]
    twice = await lanes.rerun(database, "d", made.run_id, by=ANNA)
    assert twice is not None and (await show_run(database, "d", twice.run_id))["events"] == events
    await healthy(database)


async def test_a_request_that_comes_again_makes_nothing_more(database: Database) -> None:
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", AssetSchedule(["asset", "a"], "each", filters={"a": ["exists", "n", None]})))
    await record(database, *(change("a", extra=extra) for extra in ('{"n": 1}', "{}", '{"n": 2}')))
    await scheduler.settle()
    original = (await list_runs(database)).rows[0]["run_id"]
    one, other = uuid.uuid4(), uuid.uuid4()
    again = [await lanes.rerun(database, "d", original, by=ANNA, request=one) for _ in range(2)]
    assert again[0] is not None and again[0] == again[1]
    done = [await lanes.replay(database, "d", Choice(["a"]), by=ANNA, request=other) for _ in range(2)]
    assert done[0] is not None and done[1] is not None and len(done[0].runs) == 2
    assert (done[0].runs, done[0].plan.runs, done[0].filtered) == (done[1].runs, done[1].plan.runs, done[1].filtered)
    assert list(done[1].filtered) == [2]
    assert await rows(database, "select count(*), max(ordinal) from run") == [(5, 5)]
    await healthy(database)


async def test_a_rerun_keeps_configuration_and_logical_date(database: Database) -> None:
    await declare(database, dag("d", CronSchedule("0 0 * * *")))
    slot = datetime(2026, 1, 1, tzinfo=UTC)
    manual = await runs.create_manual(database, "d", conf={"n": 5}, logical_date=slot, by={})
    assert manual is not None
    for _ in range(2):
        made = await lanes.rerun(database, "d", manual.run_id, by=ANNA)
        assert made is not None
        again = await show_run(database, "d", made.run_id)
        assert (again["logical_date"], again["conf"]) == ("2026-01-01T00:00:00.000000Z", {"n": 5})
    await healthy(database)


async def test_a_rerun_takes_the_present_code(database: Database) -> None:
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", each("a")))
    await record(database, "a")
    await scheduler.settle()
    await declare(database, "a", dag("d", each("a"), "new"))
    made = await lanes.rerun(database, "d", await only_run(database, "d"), by=ANNA)
    assert made is not None
    await scheduler.settle()
    assert (await show_run(database, "d", made.run_id))["version"] == 2


async def test_no_such_run_to_run_again(database: Database) -> None:
    await declare(database, dag("d"))
    assert await lanes.rerun(database, "d", "manual__1", by=ANNA) is None
    with pytest.raises(InputError, match="allowed: emit, hold, tag"):
        await lanes.rerun(database, "d", "manual__1", by=ANNA, downstream="drop")  # type: ignore[arg-type]


# Replay -------------------------------------------------------------------------------------------------------------


POLICIES: list[tuple[Policy, list[list[int]]]] = [
    ("each", [[0], [1], [2], [3]]),
    ("all", [[0, 1, 2, 3]]),
    ("window", [[0, 1, 2, 3]]),
    ("latest", [[2, 3]]),
]


@pytest.mark.parametrize(("policy", "expected"), POLICIES)
async def test_a_replay_follows_the_policy(database: Database, policy: Policy, expected: list[list[int]]) -> None:
    """temporal sdk-typescript#1594: by hand the same policy as by machine; a rehearsal tells what it would do."""
    how = {"quiet": 3600.0} if policy == "window" else {}
    scheduler = Scheduler(database)
    await declare(database, "a", "b", dag("d", one_of("a", "b", policy=policy, **how)))
    events = await event_ids(database, "a", "b", "a", "b")
    await scheduler.settle()
    before = await ledger(database)
    wanted = [[events[i] for i in members] for members in expected]
    rehearsed = await lanes.replay(database, "d", Choice(["a", "b"]), by=ANNA, rehearse=True)
    assert rehearsed is not None and [list(r) for r in rehearsed.plan.runs] == wanted and rehearsed.runs == []
    assert await runs_of(database, "d", "replay") == []
    done = await lanes.replay(database, "d", Choice(["a", "b"]), by=ANNA, reason="new model")
    assert done is not None and len(done.runs) == len(wanted)
    assert await runs_of(database, "d", "replay") == [("replay", members) for members in wanted]
    assert await ledger(database) == before
    told = (await why_run(database, "d", done.runs[0].run_id))["because"]
    assert "a replay of chosen events (of a, b), because: new model" in told[0]
    assert f"policy {policy}" in told[2] and told[3].startswith("chosen then:")
    beside = (await why_event(database, events[3]))["runs_beside"]
    assert [r["run_id"] for r in beside] == [done.runs[-1].run_id]
    assert "by anna on here by command, because: new model" in beside[0]["because"]
    await healthy(database)


async def test_a_replay_passes_the_present_filters(database: Database) -> None:
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", each("a")))
    paid, due = [
        r.event_id
        for r in await record(database, change("a", extra='{"s": "paid"}'), change("a", extra='{"s": "due"}'))
    ]
    await scheduler.settle()
    schedule = AssetSchedule(["asset", "a"], "each", filters={"a": ["==", "s", "paid"]})
    await declare(database, "a", dag("d", schedule))
    done = await lanes.replay(database, "d", Choice(["a"]), by=ANNA)
    assert done is not None and done.plan.runs == ((paid,),) and list(done.filtered) == [due]
    none = await lanes.replay(database, "d", Choice(events=[due]), by=ANNA)
    assert none is not None and none.runs == [] and "paid" in none.filtered[due]


async def test_what_can_be_chosen(database: Database) -> None:
    await declare(database, "a", "b", "c", dag("d", together("a", "b")), dag("timed", CronSchedule("0 0 * * *")))
    a, b, c = await event_ids(database, "a", "b", "c")
    early, late = datetime(2020, 1, 1, tzinfo=UTC), datetime(2090, 1, 1, tzinfo=UTC)
    done = await lanes.replay(database, "d", Choice(["a", "b"], early, late), by=ANNA)
    assert done is not None and done.plan.runs == ((a, b),)
    with pytest.raises(ConflictError, match="there is nothing of b"):
        await lanes.replay(database, "d", Choice(events=[a]), by=ANNA)
    with pytest.raises(ConflictError, match=f"event {c} is of asset 'c', which DAG 'd' does not consume"):
        await lanes.replay(database, "d", Choice(events=[a, b, c]), by=ANNA)
    with pytest.raises(ConflictError, match="consumes no assets"):
        await lanes.replay(database, "timed", Choice(["a"]), by=ANNA)
    with pytest.raises(InputError, match="no event was chosen"):
        await lanes.replay(database, "d", Choice(["a"], late), by=ANNA)
    with pytest.raises(InputError, match="event 99 is not stored"):
        await lanes.replay(database, "d", Choice(events=[a, 99]), by=ANNA)
    with pytest.raises(NotFoundError, match="no asset 'nothing'"):
        await lanes.replay(database, "d", Choice(["nothing"]), by=ANNA)
    assert await lanes.replay(database, "nothing", Choice(["a"]), by=ANNA) is None
    assert len(await runs_of(database, "d")) == 1


async def test_keys_block_machines_never_people(database: Database) -> None:
    """An event that ran, was joined, discarded or never delivered is replayed as often as a person wants."""
    scheduler = Scheduler(database)
    await declare(database, "a", dag("early", each("a")))
    [recorded] = await record(database, change("a", "k"))
    await scheduler.settle()
    await declare(database, "a", dag("late", each("a")))
    for dag_id in ("early", "late"):
        for _ in range(2):
            assert await lanes.replay(database, dag_id, Choice(events=[recorded.event_id]), by=ANNA) is not None
    [again] = await record(database, change("a", "k"))
    assert again.status == "duplicate"
    await scheduler.settle()
    assert [t for t, _ in await runs_of(database, "early")] == ["asset_triggered", "replay", "replay"]
    assert [t for t, _ in await runs_of(database, "late")] == ["replay", "replay"]
    assert (await healthy(database))["by_disposition"] == {"started": 1}


# Discard, release ---------------------------------------------------------------------------------------------------


async def test_what_waits_is_listed_and_discarded(database: Database) -> None:
    """airflow #70444, #73119: any pending trigger can be listed, and deleted by who says why."""
    scheduler = Scheduler(database)
    await declare(database, "a", "b", dag("d", together("a", "b")), dag("other", together("a", "b")))
    first, second = await event_ids(database, "a", "a")
    await scheduler.settle()
    third, *_ = await event_ids(database, "a")
    done = await interventions.discard(database, Scope("d", [first, third]), by=ANNA, reason="test data")
    assert done == [interventions.Settled("d", 2)]
    await event_ids(database, "b")
    await scheduler.settle()
    assert await runs_of(database, "d") == [("asset_triggered", [second, third + 1])]
    assert len((await runs_of(database, "other"))[0][1]) == 4
    [told] = [d for d in (await why_event(database, first))["deliveries"] if d["dag_id"] == "d"]
    assert "discarded by hand (anna on here by command discarded it at" in told["because"]
    assert "because: test data" in told["because"]
    assert await interventions.discard(database, Scope(events=[first]), by=ANNA) == []
    await healthy(database)


async def test_an_event_is_discarded_for_all_its_consumers(database: Database) -> None:
    await declare(database, "a", "b", dag("d", each("a")), dag("e", each("a")), dag("f", each("b")))
    [event, _] = await event_ids(database, "a", "b")
    done = await interventions.discard(database, Scope(events=[event]), by=ANNA)
    assert [(s.dag_id, s.deliveries) for s in done] == [("d", 1), ("e", 1)]
    await Scheduler(database).settle()
    assert (await healthy(database))["by_disposition"] == {"discarded": 2, "started": 1}
    with pytest.raises(InputError, match="nothing says which"):
        await interventions.discard(database, Scope(), by=ANNA)


async def test_held_deliveries_are_released(database: Database) -> None:
    scheduler = Scheduler(database)
    await declare(database, "a", "b", dag("d", one_of("a", "b", policy="each")))
    events = await event_ids(database, "a", "b", "a")
    async with database._acquire() as raw:
        await raw.execute("update delivery set disposition = 'held', judged = true, reason = 'error: odd'")
        await raw.execute("update delivery set reason = 'pause' where event_id = $1", events[2])
    done = await interventions.release(database, Scope("d", asset="a"), by=ANNA, reason="looked at")
    assert done == [interventions.Settled("d", 1)]
    await scheduler.settle()
    assert await dispositions(database) == [("started", None), ("held", "error: odd"), ("held", "pause")]
    [told] = (await why_event(database, events[0]))["deliveries"]
    assert "anna on here by command released it at" in told["because"] and "because: looked at" in told["because"]


# Downstream ---------------------------------------------------------------------------------------------------------


async def test_a_consumer_may_leave_out_what_a_replay_tags(database: Database) -> None:
    scheduler = Scheduler(database)
    maker = dag("maker", each("a"), TaskSpec("work", outlets=("out",)))
    untagged = ["not", ["source", ["exists", "lane", None]]]
    reader = dag("reader", AssetSchedule(["asset", "out"], "each", filters={"out": untagged}))
    await declare(database, "a", "out", maker, reader)
    [event] = await event_ids(database, "a")
    await work(database, scheduler)
    lanes_of: tuple[Downstream, ...] = ("tag", "emit")
    for downstream in lanes_of:
        await lanes.replay(database, "maker", Choice(events=[event]), by=ANNA, downstream=downstream)
        await work(database, scheduler)
    assert [e for _, e in await runs_of(database, "reader")] == [[2], [4]]
    [told] = (await why_event(database, 3))["deliveries"]
    assert told["because"].endswith("~(source(lane exists)) is not met")
    done = await lanes.replay(database, "reader", Choice(events=[2, 3]), by=ANNA)
    assert done is not None and (done.plan.runs, list(done.filtered)) == (((2,),), [3])
    await healthy(database)


@pytest.mark.parametrize("downstream", ["emit", "hold", "tag"])
async def test_downstream_of_a_replay(database: Database, downstream: Downstream) -> None:
    """airflow#52665: a replay of A need not flood B."""
    scheduler = Scheduler(database)
    maker = dag("maker", each("a"), TaskSpec("work", outlets=("out",)))
    await declare(database, "a", "out", maker, dag("reader", each("out")))
    [event] = await event_ids(database, "a")
    await work(database, scheduler)
    done = await lanes.replay(database, "maker", Choice(events=[event]), by=ANNA, downstream=downstream)
    assert done is not None
    await work(database, scheduler)
    held = downstream == "hold"
    assert len(await runs_of(database, "reader")) == (1 if held else 2)
    [(made, lane)] = await rows(database, "select id, source ->> 'lane' from event order by id desc limit 1")
    assert lane == ("replay" if downstream == "tag" else None)
    [told] = (await why_event(database, made))["deliveries"]
    assert ("held because the replay that made it was told to" in told["because"]) == held
    sentences = (await why_run(database, "maker", done.runs[0].run_id))["because"]
    assert any("held for their consumers" in s for s in sentences) == held
    await healthy(database)
    if held:
        await interventions.release(database, Scope("reader"), by=ANNA)
        await work(database, scheduler)
        assert len(await runs_of(database, "reader")) == 2


# Loops --------------------------------------------------------------------------------------------------------------


def feeding(dag_id: str, source: str, target: str, **more: Any) -> Any:
    """A DAG that consumes one asset and makes an event of another."""
    return dag(dag_id, each(source), TaskSpec("work", outlets=(target,)), file="loop.py", **more)


async def test_a_loop_of_events_is_held(database: Database) -> None:
    """A feeds B feeds A: recognised by its causes, not by its speed; what is no loop goes on."""
    scheduler = Scheduler(database)
    await declare(database, "a", "b", feeding("ab", "a", "b", max_rounds=3), feeding("ba", "b", "a"), path="loop.py")
    await declare(database, "a", dag("log", each("a")))
    await record(database, "a")
    await work(database, scheduler)
    assert (len(await runs_of(database, "ab")), len(await runs_of(database, "ba"))) == (3, 3)
    assert len(await runs_of(database, "log")) == 4
    [(last, dag_id)] = await rows(
        database, "select event_id, d.dag_id from delivery y join dag d on d.id = y.dag_id where disposition = 'held'"
    )
    assert dag_id == "ab"
    told = await why_event(database, last)
    assert "the change has come through 3 runs of ab, 3 runs of ba" in told["because"]
    assert any("held as an event loop" in d["because"] for d in told["deliveries"])
    await record(database, "a")
    await work(database, scheduler)
    assert len(await runs_of(database, "ab")) == 6
    await interventions.release(database, Scope("ab"), by=ANNA, reason="once more")
    await work(database, scheduler)
    assert len(await runs_of(database, "ab")) == 8, "each of the two goes on for one round, and is held again"
    await healthy(database)


async def test_a_loop_is_seen_through_joins_and_replays(database: Database) -> None:
    scheduler = Scheduler(database)
    both = dag("both", together("a", "x"), TaskSpec("work", outlets=("a",)), file="loop.py", max_rounds=2)
    await declare(database, "a", "x", both, path="loop.py")
    for _ in range(4):
        await record(database, "x")
    await record(database, "a")
    await work(database, scheduler)
    await record(database, "x")
    await work(database, scheduler)
    assert len(await runs_of(database, "both")) == 2
    assert ("held", "loop") in await dispositions(database)
    done = await lanes.replay(database, "both", Choice(["a", "x"]), by=ANNA)
    assert done is not None
    await work(database, scheduler)
    [(rounds,)] = await rows(database, "select rounds::text from cause order by event_id desc limit 1")
    assert rounds == '{"1": 3}'
    await healthy(database)


async def test_who_feeds_itself_may_do_so(database: Database) -> None:
    """With max_rounds=0 a DAG may go round as long as it wants; here it is ended by the hand that counts."""
    scheduler = Scheduler(database)
    await declare(database, "a", feeding("self", "a", "a", max_rounds=0), path="loop.py")
    await record(database, "a")
    executor, versions = load("local", database, WORKER, 60.0), Versions()
    for _ in range(8):
        await scheduler.settle()
        [task] = await executor.claim(10)
        graph = (await versions.read(database, [task.version]))[task.version].graph
        result = {"outcome": "success", "events": [{"asset": "a", "extra": {}}]}
        await executor.finish([ended(task, graph, Ending(result, 0))])
    await scheduler.settle()
    assert len(await runs_of(database, "self")) == 9
    await healthy(database)


async def test_an_event_is_kept_as_long_as_a_run_that_a_person_made_of_it(database: Database) -> None:
    """And no longer; what its outlet made keeps its causes, without the run."""
    scheduler = Scheduler(database)
    await declare(database, "a", "out", dag("d", each("a"), TaskSpec("work", outlets=("out",))))
    [event] = await event_ids(database, "a")
    await work(database, scheduler)
    assert await lanes.replay(database, "d", Choice(events=[event]), by=ANNA) is not None
    await work(database, scheduler)
    [(asset,)] = await rows(database, "select id from asset where name = 'a'")
    assert await pruning.events(database, asset, 0, 0, 100) == (None, 0)
    assert await pruning.runs(database, 0, 100) == 1
    assert await pruning.events(database, asset, 0, 0, 100) == (None, 1)
    assert await rows(database, "select run_id, rounds::text from cause") == [(None, '{"1": 1}')] * 2
    await healthy(database)
