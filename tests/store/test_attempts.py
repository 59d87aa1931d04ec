"""Tasks and their attempts: each is given to one worker, and has one outcome, whoever reports when (G6)."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ground import (
    Gate,
    Scheduler,
    change,
    claim_tasks,
    connected,
    dag,
    deadlocks,
    declare,
    each,
    finish,
    healthy,
    pool,
    report,
    rows,
    together_all,
    without_result,
)

from onceflow.model.dagspec import TaskSpec
from onceflow.model.states import LOST_LIMIT, Outcome, TaskState, TriggerRule
from onceflow.store import processes, runs, tasks
from onceflow.store.database import BAD_DATA, Database

ANNA, BERT = uuid.UUID(int=1), uuid.UUID(int=2)
HELD_CLOCK = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


async def states(database: Database) -> dict[str, str]:
    return dict(await rows(database, "select task_id, state::text from task"))


async def assets(database: Database) -> dict[str, int]:
    return dict(await rows(database, "select name, id from asset"))


async def run_of(database: Database, *ids: TaskSpec | str, **options: Any) -> Scheduler:
    """A DAG of these tasks and a run of it that has begun."""
    await declare(database, "out", dag("d", None, *ids, **options), dag("consumer", each("out")), path="d.py")
    await runs.create_manual(database, "d", by={})
    scheduler = Scheduler(database)
    await scheduler.settle()
    return scheduler


async def run_out(database: Database) -> None:
    await rows(database, "update task set lease_until = clock_timestamp() - interval '1 s' where owner is not null")


async def test_a_queued_task_is_given_to_one_worker(database: Database) -> None:
    await run_of(database, *(f"t{i}" for i in range(16)))
    workers = [uuid.UUID(int=i) for i in range(1, 9)]
    claimed = await together_all(*(tasks.claim(database, w, 3, 60.0) for w in workers))
    counts = Counter(t.id for some in claimed for t in some)
    assert set(counts.values()) == {1} and len(counts) == 16
    assert {t.attempt for some in claimed for t in some} == {1}
    assert len({t.token for some in claimed for t in some}) == 16
    await healthy(database)


async def test_the_best_priority_goes_first(database: Database) -> None:
    await run_of(
        database,
        TaskSpec("low", priority_weight=1),
        TaskSpec("high", priority_weight=9),
        TaskSpec("mid", priority_weight=5),
    )
    order = [t.task_id for _ in range(3) for t in await tasks.claim(database, ANNA, 1, 60.0)]
    assert order == ["high", "mid", "low"]


async def test_only_tasks_of_the_worker_s_queues_and_executor(database: Database) -> None:
    await run_of(
        database,
        *(TaskSpec("a", queue="x", priority_weight=2), TaskSpec("b", queue="y", priority_weight=3)),
        *(TaskSpec("c", queue="z"), TaskSpec("d", queue="x", executor="other")),
    )
    assert await tasks.claim(database, ANNA, 5, 60.0) == []
    claimed = await tasks.claim(database, ANNA, 5, 60.0, queues=("x", "y"))
    assert [t.task_id for t in claimed] == ["b", "a"]
    assert [t.task_id for t in await tasks.claim(database, ANNA, 5, 60.0, queues=("x",), executor="other")] == ["d"]


async def test_a_report_is_stored_once_and_answered_again(database: Database) -> None:
    """The first answer was lost: the same report is not mistaken for one that comes too late."""
    scheduler = await run_of(database, "t")
    task = (await claim_tasks(database, ANNA))["t"]
    done = report(task, value='{"n": 1}', changes=[change("out", "k")])
    known = await assets(database)
    assert await finish(database, ANNA, done, assets=known) == ["finished"]
    assert await finish(database, ANNA, done, assets=known) == ["repeated"]
    await scheduler.settle()
    assert await finish(database, ANNA, done, assets=known) == ["repeated"]
    assert await rows(database, "select value::text from xcom") == [('{"n": 1}',)]
    assert await rows(database, "select 1 from witness") == []
    assert (await healthy(database))["events"] == 1


async def test_another_outcome_for_the_same_attempt_comes_too_late(database: Database) -> None:
    await run_of(database, "t")
    task = (await claim_tasks(database, ANNA))["t"]
    assert await finish(database, ANNA, report(task)) == ["finished"]
    failed = report(task, TaskState.FAILED, changes=[change("out")], value="1")
    assert await finish(database, ANNA, failed, assets=await assets(database)) == ["fenced"]
    assert await states(database) == {"t": "success"}
    assert await rows(database, "select 1 from event union all select 1 from xcom") == []


async def test_the_attempt_before_the_present_one_is_fenced(database: Database) -> None:
    """airflow #66374, #67287, #71580, #71172: a report of an earlier attempt that comes late is ignored.

    Its worker was lost and is back; the next attempt is under way elsewhere.
    """
    await run_of(database, "t")
    old = (await claim_tasks(database, ANNA))["t"]
    await run_out(database)
    assert await tasks.rescue(database, take_over=True) == 1
    new = (await claim_tasks(database, BERT))["t"]
    assert (new.attempt, new.failures) == (2, 0)
    late = report(old, changes=[change("out")], value="1")
    known = await assets(database)
    assert await finish(database, ANNA, late, assets=known) == ["fenced"]
    assert await tasks.renew(database, ANNA, [(old.id, old.token)], 60.0) == set()
    assert await finish(database, ANNA, report(new), assets=known) == ["fenced"]  # the right token, the wrong worker
    assert await finish(database, BERT, report(new), assets=known) == ["finished"]
    assert await rows(database, "select number, outcome::text from attempt order by 1") == [(1, "lost"), (2, "success")]
    assert (await healthy(database))["events"] == 0


async def test_only_the_events_of_valid_attempts_of_a_batch_are_stored(database: Database) -> None:
    await run_of(database, "a", "b", "c")
    claimed = await claim_tasks(database, ANNA)
    await rows(database, "update task set lease_until = '-infinity' where task_id = 'b'")
    await tasks.rescue(database, take_over=False)
    reports = [report(claimed[t], changes=[change("out", f"{t}1"), change("out", f"{t}2")]) for t in "abc"]
    assert await finish(database, ANNA, *reports, assets=await assets(database)) == ["finished", "fenced", "finished"]
    assert await rows(database, "select key from event order by seq") == [("a1",), ("a2",), ("c1",), ("c2",)]
    assert (await healthy(database))["deliveries"] == 4


async def test_data_that_the_database_refuses_changes_nothing(database: Database) -> None:
    await run_of(database, "a", "b")
    claimed = await claim_tasks(database, ANNA)
    good, bad = report(claimed["a"], changes=[change("out")]), report(claimed["b"], value="{not json")
    known = await assets(database)
    with pytest.raises(BAD_DATA):
        await finish(database, ANNA, good, bad, assets=known)
    with pytest.raises(BAD_DATA):
        await finish(database, ANNA, report(claimed["b"], TaskState.UP_FOR_RETRY, Outcome.FAILED), assets=known)
    assert await states(database) == {"a": "running", "b": "running"}
    assert (await healthy(database))["events"] == 0


async def test_failures_spend_retries_and_lost_workers_do_not(database: Database) -> None:
    scheduler = await run_of(database, "t")
    for attempt in range(1, 3):
        await run_out_of(database, "t")
        task = (await claim_tasks(database, ANNA))["t"]
        assert task.attempt == attempt
        await rows(database, "update task set lease_until = '-infinity'")
        assert await tasks.rescue(database, take_over=False) == 1
    task = (await claim_tasks(database, ANNA))["t"]
    again = report(task, TaskState.UP_FOR_RETRY, Outcome.FAILED, retry_seconds=0.0)
    assert await finish(database, ANNA, again) == ["finished"]
    await scheduler.settle()
    task = (await claim_tasks(database, ANNA))["t"]
    assert (task.attempt, task.failures) == (4, 1)
    assert await rows(database, "select failures, losses from task") == [(1, 2)]
    await healthy(database)


async def run_out_of(database: Database, task: str) -> None:
    assert (await states(database))[task] == "queued"


async def test_a_task_lost_too_often_fails(database: Database) -> None:
    scheduler = await run_of(database, "t")
    for _ in range(LOST_LIMIT):
        assert len(await claim_tasks(database, ANNA)) == 1
        await run_out(database)
        assert await tasks.rescue(database, take_over=True) == 1
    assert await claim_tasks(database, ANNA) == {}
    await scheduler.settle()
    assert await rows(database, "select state::text from run") == [("failed",)]
    await healthy(database)


async def test_after_an_outage_only_the_buried_lose_their_tasks(database: Database) -> None:
    await run_of(database, "a", "b")
    for process in (ANNA, BERT):
        await processes.register(database, process, "worker", 60.0)
    [first] = await tasks.claim(database, ANNA, 1, -1.0)
    [second] = await tasks.claim(database, BERT, 1, -1.0)
    assert await tasks.rescue(database, take_over=False) == 0
    await processes.bury(database, [BERT])
    assert await tasks.rescue(database, take_over=False) == 1
    assert dict(await rows(database, "select id, state::text from task")) == {first.id: "running", second.id: "queued"}
    assert await tasks.rescue(database, take_over=True) == 1


async def test_a_claim_whose_answer_was_lost_comes_back_after_the_lease(database: Database) -> None:
    """Only what a worker really runs is renewed."""
    await run_of(database, "a", "b")
    claimed = await claim_tasks(database, ANNA)
    await run_out(database)
    known = claimed["a"]
    assert await tasks.renew(database, ANNA, [(known.id, known.token)], 60.0) == {known.id}
    assert await tasks.renew(database, ANNA, [(known.id, uuid.uuid4())], 60.0) == set()
    assert await tasks.rescue(database, take_over=True) == 1
    assert await states(database) == {"a": "running", "b": "queued"}


async def test_a_rescuer_passes_a_task_by_that_is_being_finished(database_url: str) -> None:
    async with pool(database_url, "gated") as worker, pool(database_url) as database:
        await run_of(database, "t")
        task = (await claim_tasks(worker, ANNA))["t"]
        await run_out(database)
        async with Gate.at(database_url, "attempt", "update") as gate, asyncio.TaskGroup() as group:
            finishing = group.create_task(finish(worker, ANNA, report(task)))
            await gate.reached()
            assert await tasks.rescue(database, take_over=True) == 0
            await gate.open()
        assert finishing.result() == ["finished"]
        assert await states(database) == {"t": "success"}
        await healthy(database)


async def test_a_worker_that_waited_for_its_rescuer_is_fenced(database_url: str) -> None:
    async with pool(database_url, "gated") as rescuer, pool(database_url, "worker") as worker:
        await run_of(rescuer, "t")
        task = (await claim_tasks(worker, ANNA))["t"]
        await run_out(worker)
        known = await assets(worker)
        async with Gate.at(database_url, "attempt", "update") as gate, asyncio.TaskGroup() as group:
            group.create_task(without_result(tasks.rescue(rescuer, take_over=True)))
            await gate.reached()
            late = group.create_task(finish(worker, ANNA, report(task, changes=[change("out")]), assets=known))
            await gate.waits("worker")
            await gate.open()
        assert late.result() == ["fenced"]
        assert await states(worker) == {"t": "queued"}
        assert (await healthy(worker))["events"] == 0


async def test_values_are_accepted_from_the_present_attempt_only(database: Database) -> None:
    await run_of(database, "t")
    task = (await claim_tasks(database, ANNA))["t"]

    async def put(token: uuid.UUID, value: str) -> bool:
        return await database.fetchrow("xcoms/put_if_attempt", task.id, token, "k", value) is not None

    assert await put(task.token, "1") and await put(task.token, "2")
    assert not await put(uuid.uuid4(), "3")
    await finish(database, ANNA, report(task))
    assert not await put(task.token, "4")
    assert await rows(database, "select value::text, attempt from xcom") == [("2", 1)]


BRANCH = (
    TaskSpec("left", ("branch", "other"), TriggerRule.ALL_SUCCESS),
    TaskSpec("right", ("branch", "other"), TriggerRule.ALL_SUCCESS),
    TaskSpec("branch"),
    TaskSpec("other"),
)


async def test_what_a_branch_skips_is_skipped_with_it(database: Database) -> None:
    scheduler = await run_of(database, *BRANCH)
    claimed = await claim_tasks(database, ANNA)
    assert (
        await finish(database, ANNA, report(claimed["branch"], skip='["left"]'), report(claimed["other"]))
        == ["finished"] * 2
    )
    assert (await states(database))["left"] == "skipped"
    await scheduler.settle()
    assert await states(database) == {"branch": "success", "other": "success", "left": "skipped", "right": "queued"}
    await healthy(database)


async def test_a_branch_skips_only_in_its_own_run(database: Database) -> None:
    scheduler = await run_of(database, *BRANCH)
    await runs.create_manual(database, "d", by={})
    await scheduler.settle()
    [first, *_] = [t for t in await tasks.claim(database, ANNA, 10, 60.0) if t.task_id == "branch"]
    await finish(database, ANNA, report(first, skip='["left", "right"]'))
    found = await rows(database, "select run_id, task_id from task where state = 'skipped' order by 1, 2")
    assert found == [(first.run, "left"), (first.run, "right")]


async def test_a_branch_and_the_scheduler_decide_about_the_same_tasks(database_url: str) -> None:
    """The scheduler fails what the branch skips, at the same time: whoever has the run goes first, none deadlocks."""
    async with pool(database_url, "gated") as worker, pool(database_url) as database:
        scheduler = await run_of(database, *BRANCH)
        claimed = await claim_tasks(database, ANNA)
        assert await finish(database, ANNA, report(claimed["other"], TaskState.FAILED)) == ["finished"]
        async with Gate.at(database_url, "attempt", "update") as gate, asyncio.TaskGroup() as group:
            skipping = report(claimed["branch"], skip='["left", "right"]')
            finishing = group.create_task(finish(worker, ANNA, skipping))
            await gate.reached()
            assert not await scheduler.advance.run_once()
            await gate.open()
        assert finishing.result() == ["finished"]
        await scheduler.settle()
        assert await states(database) == {
            "branch": "success", "other": "failed", "left": "skipped", "right": "skipped"
        }  # fmt: skip
        await healthy(database)


async def test_what_the_scheduler_judged_in_another_state_is_left_alone(database: Database) -> None:
    await run_of(database, "a", TaskSpec("b", ("a",)))
    ids = dict(await rows(database, "select task_id, id from task"))
    plan = tasks.Advance(changes=[(ids["a"], TaskState.WAITING, TaskState.SKIPPED)])
    async with database.transaction() as tx:
        await tasks.advance(tx, plan)
    assert await states(database) == {"a": "queued", "b": "waiting"}


async def test_a_run_over_its_time_takes_its_tasks_back(database: Database) -> None:
    """prefect #14692: what is said to be late is late by what is committed, and the run says why it failed."""
    scheduler = await run_of(database, "a", TaskSpec("b", ("a",)), dagrun_timeout=60.0)
    claimed = await claim_tasks(database, ANNA)
    assert await database.fetch("runs/expire", 10, None) == []
    far = datetime(2100, 1, 1, tzinfo=UTC)
    assert len(await database.fetch("runs/expire", 10, far)) == 1
    assert await database.fetch("runs/expire", 10, far) == []
    assert await states(database) == {"a": "failed", "b": "skipped"}
    assert await rows(database, "select state::text, end_reason, finished_at from run") == [
        ("failed", "dagrun_timeout", far)
    ]
    assert await finish(database, ANNA, report(claimed["a"])) == ["fenced"]
    assert await tasks.renew(database, ANNA, [(claimed["a"].id, claimed["a"].token)], 60.0) == set()
    await scheduler.settle()
    await healthy(database)


FAR = datetime(2100, 1, 1, tzinfo=UTC)


async def test_a_run_that_is_about_to_end_is_not_called_late(database_url: str) -> None:
    """prefect #14692, #13749, #8495: who looks at the deadline waits for nobody, and goes by what is committed."""
    async with pool(database_url, "gated") as ending, pool(database_url) as database:
        await run_of(database, "a", dagrun_timeout=60.0)
        await finish(database, ANNA, report((await claim_tasks(database, ANNA))["a"]))
        async with Gate.at(database_url, "run", "update", "after") as gate, asyncio.TaskGroup() as group:
            group.create_task(without_result(Scheduler(ending).advance.run_once()))
            await gate.reached()
            assert await database.fetch("runs/expire", 10, FAR) == []
            await gate.open()
        assert await database.fetch("runs/expire", 10, FAR) == []
        assert await rows(database, "select state::text, end_reason from run") == [("success", None)]


async def test_a_task_claimed_while_its_run_expires_leaves_no_open_attempt(database_url: str) -> None:
    async with pool(database_url, "gated") as expiring, pool(database_url) as database:
        await run_of(database, "a", "b", dagrun_timeout=60.0)
        async with Gate.at(database_url, "task", "update") as gate, asyncio.TaskGroup() as group:
            group.create_task(without_result(expiring.fetch("runs/expire", 10, FAR)))
            await gate.reached()
            await claim_tasks(database, ANNA)
            await gate.open()
        assert set((await states(database)).values()) <= {"failed", "skipped"}
        await healthy(database)


async def test_an_attempt_that_ends_while_its_run_expires(database_url: str) -> None:
    """Both want the task and its attempt, and take them in the same order."""
    async with pool(database_url, "gated") as expiring, pool(database_url, "worker") as worker:
        await run_of(worker, "a", dagrun_timeout=60.0)
        task = (await claim_tasks(worker, ANNA))["a"]
        async with Gate.at(database_url, "attempt", "update", "after") as gate, asyncio.TaskGroup() as group:
            group.create_task(without_result(expiring.fetch("runs/expire", 10, FAR)))
            await gate.reached()
            late = group.create_task(finish(worker, ANNA, report(task)))
            await gate.waits("worker")
            await gate.open()
        assert late.result() == ["fenced"]
        assert await states(worker) == {"a": "failed"}
        await healthy(worker)
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0


async def test_a_retry_is_due_by_the_given_clock(database: Database) -> None:
    scheduler = await run_of(database, "t")
    task = (await claim_tasks(database, ANNA))["t"]
    failed = report(task, TaskState.UP_FOR_RETRY, Outcome.FAILED, retry_seconds=90.0)
    assert await tasks.finish(database, ANNA, [failed], {}, HELD_CLOCK) == ["finished"]
    await scheduler.settle()
    assert await rows(database, "select retry_at, finished_at from task") == [
        (HELD_CLOCK + timedelta(seconds=90), HELD_CLOCK)
    ]
    for seconds, expected in ((89, []), (90, [task.run])):
        now = HELD_CLOCK + timedelta(seconds=seconds)
        assert await tasks.find_unsettled(database, 10, now) == expected
        async with database.transaction() as tx:
            [found] = await tasks.claim_of_runs(tx, [task.run], now)
            assert found.due == ({"t"} if expected else set())


async def test_the_clock_can_be_held(database: Database) -> None:
    await run_of(database, "t")
    [task] = await tasks.claim(database, ANNA, 1, 30.0, now=HELD_CLOCK)
    assert await rows(database, "select started_at, lease_until from task") == [
        (HELD_CLOCK, HELD_CLOCK + timedelta(seconds=30))
    ]
    await tasks.finish(database, ANNA, [report(task, changes=[change("out")])], await assets(database), HELD_CLOCK)
    assert await rows(
        database, "select t.finished_at, a.finished_at, e.created_at from task t, attempt a, event e"
    ) == [(HELD_CLOCK,) * 3]


@pytest.fixture
async def many(database_url: str) -> AsyncIterator[Database]:
    async with pool(database_url, size=8) as database:
        yield database


@pytest.mark.parametrize("seed", [5, 6])
async def test_workers_rescuers_and_schedulers_at_once(many: Database, database_url: str, seed: int) -> None:
    """Leases run out at random, reports come twice or too late: every attempt has one outcome, every run ends."""
    both = TaskSpec("both", ("one", "two"), TriggerRule.ALL_DONE)
    await declare(many, "out", dag("d", None, "one", "two", both), dag("consumer", each("out")), path="d.py")
    for _ in range(15):
        await runs.create_manual(many, "d", by={})
    known = await assets(many)
    over = asyncio.Event()

    async def worker(n: int) -> None:
        me, dice = uuid.UUID(int=n), random.Random(seed * 100 + n)
        while not over.is_set():
            for task in await tasks.claim(many, me, 4, 60.0):
                if dice.random() < 0.15:
                    await rows(
                        many, "update task set lease_until = '-infinity' where id = $1 and owner = $2", task.id, me
                    )
                    await tasks.rescue(many, take_over=False)
                seen = [change("out", f"{task.id}")] if task.dag_id == "d" else []
                done = report(task, changes=seen, value="1")
                await together_all(*(finish(many, me, done, assets=known) for _ in range(dice.choice([1, 1, 2]))))

    async def scheduler() -> None:
        services = Scheduler(many)
        while not over.is_set():
            await services.judge.run_once()
            await services.start.run_once()
            await services.advance.run_once()
            left = await rows(many, "select 1 from run where run_type = 'manual' and state in ('queued', 'running')")
            if not left:
                over.set()

    await together_all(*(without_result(worker(n)) for n in range(1, 5)), scheduler(), scheduler())
    await Scheduler(many).settle()
    counted = await healthy(many)
    ended = "select count(*) from task where state = 'success' and task_id <> 'work'"
    assert [(counted["events"],)] == await rows(many, ended)
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0
