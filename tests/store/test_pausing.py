"""Pausing: what comes meanwhile is held or discarded; on resume it runs each, joined into one, or not at all."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import Any

import pytest
from ground import (
    Gate,
    Scheduler,
    change,
    dag,
    declare,
    each,
    healthy,
    members,
    one_of,
    pool,
    record,
    rows,
    together,
    together_all,
    until_quiet,
)

from onceflow.model.dagspec import AssetSchedule, Policy
from onceflow.model.errors import ConflictError
from onceflow.queries.why import why_event, why_run
from onceflow.store import dags, deliveries, history, storms
from onceflow.store.dags import OnResume
from onceflow.store.database import Database

ANNA: dict[str, Any] = {"kind": "cli", "user": "anna", "host": "here"}


async def dispositions(database: Database) -> list[str]:
    return [d for (d,) in await rows(database, "select disposition::text from delivery order by event_id, dag_id")]


async def event_ids(database: Database, *assets: str) -> list[int]:
    return [r.event_id for r in await record(database, *assets)]


async def because(database: Database, event: int) -> str:
    [delivery] = (await why_event(database, event))["deliveries"]
    return delivery["because"]


def newest_together(*names: str) -> AssetSchedule:
    """The newest event of each of the assets, when all of them have one."""
    return replace(together(*names), policy="latest")


def schedule_of(policy: Policy) -> AssetSchedule:
    return one_of("a", policy=policy, quiet=0.001) if policy != "each" else each("a")


@pytest.mark.parametrize("policy", ["each", "all", "window", "latest"])
async def test_a_paused_consumer_makes_no_run(database: Database, policy: Policy) -> None:
    """airflow #73151, #49857: paused means that no run is created; resumed, each event is consumed once."""
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", schedule_of(policy)))
    assert (await dags.pause(database, "d", by=ANNA, reason="repairs")).while_paused == "hold"  # type: ignore[union-attr]
    events = await event_ids(database, "a", "a", "a")
    await scheduler.settle()
    assert await members(database) == []
    assert await dispositions(database) == ["held"] * 3
    assert "anna on here by command paused it at" in await because(database, events[0])
    assert "because: repairs" in await because(database, events[0])
    resumed = await dags.unpause(database, "d", by=ANNA)
    assert resumed is not None and (resumed.released, resumed.discarded) == (3, 0)
    await scheduler.settle()
    assert await members(database) == {"each": [[e] for e in events], "latest": [events[2:]]}.get(policy, [events])
    assert "resumed it with --pending each" in await because(database, events[2])
    assert (await dags.unpause(database, "d", by=ANNA)).released == 0  # type: ignore[union-attr]
    await scheduler.settle()
    assert sum(map(len, await members(database))) == (1 if policy == "latest" else 3)
    await healthy(database)


async def test_a_window_that_ends_in_a_pause_waits_for_its_end(database: Database) -> None:
    await declare(database, "a", dag("d", one_of("a", policy="window", quiet=0.001)))
    [event] = await event_ids(database, "a")
    async with database.transaction() as tx:  # judged, and waiting for its end
        await deliveries.claim(tx, [1])
        await deliveries.mark_judged(tx, [(1, event)])
        await deliveries.note(tx, uuid.UUID(int=1), [deliveries.Note(1, "{}", deliveries.AT_ONCE)])
    await dags.pause(database, "d", by=ANNA)
    scheduler = Scheduler(database)
    await scheduler.settle()
    assert await members(database) == []
    await dags.unpause(database, "d", by=ANNA)
    await scheduler.settle()
    assert await members(database) == [[event]]


async def test_an_author_may_have_events_discarded_meanwhile(database: Database) -> None:
    """airflow #49857: the policy is the author's, and it is shown."""
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", each("a"), while_paused="discard"))
    assert (await dags.pause(database, "d", by=ANNA, reason="too many")).while_paused == "discard"  # type: ignore[union-attr]
    [lost] = await event_ids(database, "a")
    await scheduler.settle()
    assert await dispositions(database) == ["discarded"]
    told = await because(database, lost)
    assert "the DAG is paused, and discards what comes meanwhile" in told
    assert "anna on here by command paused it at" in told and "because: too many" in told
    await dags.unpause(database, "d", by=ANNA)
    [kept] = await event_ids(database, "a")
    await scheduler.settle()
    assert await members(database) == [[kept]]
    await healthy(database)


@pytest.mark.parametrize("paused", [None, True])
async def test_who_paused_a_dag_at_its_creation_is_known_too(database: Database, paused: bool | None) -> None:
    spec = dag("d", each("a"), while_paused="discard", paused_on_creation=paused)
    await declare(database, "a", spec, paused=paused is None)
    [event] = await event_ids(database, "a")
    await Scheduler(database).settle()
    who = "the DAG's author (is_paused_upon_creation)" if paused else "the setting new_dags_paused"
    assert f"({who} paused it at" in await because(database, event)
    await healthy(database)


@pytest.mark.parametrize("policy", ["each", "all", "window", "latest"])
async def test_on_resume_all_may_be_joined_into_one_run(database: Database, policy: Policy) -> None:
    """Whatever the policy; what comes after the resume is consumed by the policy again."""
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", schedule_of(policy)))
    await dags.pause(database, "d", by=ANNA)
    held = await event_ids(database, "a", "a")
    await scheduler.settle()
    fresh = await event_ids(database, "a")  # nobody has looked at it yet
    resumed = await dags.unpause(database, "d", "join", by=ANNA, reason="they belong together")
    assert resumed is not None and resumed.released == 3
    later = await event_ids(database, "a")
    await scheduler.settle()
    assert await members(database) == [held + fresh, later]
    [(run_id,), _] = await rows(database, "select run_id from run order by ordinal")
    told = " ".join((await why_run(database, "d", run_id))["because"])
    assert "one run of everything, because anna on here by command resumed it with --pending join at" in told
    assert "because: they belong together" in told
    assert "resumed it with --pending join" in await because(database, held[0])
    await healthy(database)


async def test_a_join_takes_what_waited_before_the_pause(database: Database) -> None:
    scheduler = Scheduler(database)
    await declare(database, "a", "b", dag("d", together("a", "b")))
    before = await event_ids(database, "a")
    await scheduler.settle()
    await dags.pause(database, "d", by=ANNA)
    held = await event_ids(database, "a")
    await scheduler.settle()
    await dags.unpause(database, "d", "join", by=ANNA)
    await scheduler.settle()
    assert await members(database) == []  # there is nothing of b
    after = await event_ids(database, "b")
    await scheduler.settle()
    assert await members(database) == [before + held + after]
    assert await rows(database, "select join_id from dag") == [(None,)]
    await healthy(database)


@pytest.mark.parametrize("policy", ["each", "all"])
async def test_a_join_of_more_than_a_portion_is_one_run(
    database: Database, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "GATHERED_AT_ONCE", 1)
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", schedule_of(policy)))
    await dags.pause(database, "d", by=ANNA)
    for _ in range(2):
        await record(database, *(change("a") for _ in range(deliveries.GATHERED_PER_CONSUMER)))
    await scheduler.settle()
    await dags.unpause(database, "d", "join", by=ANNA)
    later = await event_ids(database, "a")
    await scheduler.settle()
    assert [len(m) for m in await members(database)] == [2 * deliveries.GATHERED_PER_CONSUMER, 1]
    assert (await members(database))[1] == later
    await healthy(database)


@pytest.mark.parametrize("schedule", [one_of("a", "b", policy="latest"), newest_together("a", "b")], ids=["or", "and"])
@pytest.mark.parametrize("by", ["resuming", "releasing"])
@pytest.mark.parametrize("marked", [False, True], ids=["fresh", "waiting"])
async def test_a_join_of_the_latest_starts_nothing_that_was_overtaken(
    database: Database, schedule: AssetSchedule, by: str, marked: bool
) -> None:
    """It came too late: it is superseded at once, and does not wait until a further event comes."""
    scheduler = Scheduler(database)
    await declare(database, "a", "b", dag("d", schedule))
    old, new, other = await event_ids(database, "a", "a", "b")
    hold = "update delivery set disposition = 'held', judged = true, reason = 'loop' where event_id = $1"
    await rows(database, hold, old)
    await scheduler.settle()
    assert await members(database) == [[new, other]]
    if by == "resuming":
        await dags.pause(database, "d", by=ANNA)
        await rows(database, "update delivery set reason = 'pause' where event_id = $1", old)
        await dags.unpause(database, "d", "join", by=ANNA)
    else:
        await storms.release(database, "d", "join", by=ANNA)
    if marked:  # it is part of a join of more than one portion
        await rows(database, "update delivery set judged = true where event_id = $1", old)
        await rows(database, "update dag set judge_at = '-infinity'")
    await scheduler.settle()
    assert await dispositions(database) in (["superseded", "started", "joined"], ["superseded", "joined", "started"])
    assert await members(database) == [[new, other]]
    assert "is newer, and went into run" in await because(database, old)
    assert await rows(database, "select join_id from dag") == [(None,)]
    await healthy(database)


async def test_a_join_lets_the_filter_be(database: Database) -> None:
    await declare(database, "a", dag("d", one_of("a", policy="each", filters={"a": ["==", "n", 1]})))
    await dags.pause(database, "d", by=ANNA)
    await record(database, *(change("a", extra=f'{{"n": {n}}}') for n in (1, 2, 1)))
    await dags.unpause(database, "d", "join", by=ANNA)
    await Scheduler(database).settle()
    assert await dispositions(database) == ["started", "filtered", "joined"]
    await healthy(database)


@pytest.mark.parametrize("policy", ["each", "all", "window", "latest"])
async def test_on_resume_all_may_be_discarded(database: Database, policy: Policy) -> None:
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", schedule_of(policy)))
    await dags.pause(database, "d", by=ANNA)
    held = await event_ids(database, "a", "a")
    await scheduler.settle()
    await event_ids(database, "a")
    resumed = await dags.unpause(database, "d", "discard", by=ANNA, reason="stale by now")
    assert resumed is not None and (resumed.released, resumed.discarded) == (0, 3)
    later = await event_ids(database, "a")
    await scheduler.settle()
    assert await members(database) == [later]
    told = await because(database, held[0])
    assert "discarded when the DAG was resumed" in told
    assert "anna on here by command resumed it with --pending discard at" in told and "because: stale by now" in told
    assert (await healthy(database))["by_disposition"] == {"discarded": 3, "started": 1}


async def test_what_is_held_for_another_reason_is_not_touched(database: Database) -> None:
    """An event of an asset that the schedule names no longer is no matter of the pause."""
    scheduler = Scheduler(database)
    await declare(database, "a", "b", dag("d", together("a", "b")))
    await record(database, "a")
    await declare(database, "a", "b", dag("d", each("b")))
    await scheduler.settle()
    await dags.pause(database, "d", by=ANNA)
    await dags.unpause(database, "d", "discard", by=ANNA)
    assert await rows(database, "select disposition::text, reason from delivery") == [("held", "unscheduled")]


@pytest.mark.parametrize("pending", ["join", "discard"])
async def test_only_a_pause_can_be_ended_so(database: Database, pending: OnResume) -> None:
    await declare(database, "a", "b", dag("d", together("a", "b")))
    await record(database, "a")
    with pytest.raises(ConflictError, match="is not paused") as refused:
        await dags.unpause(database, "d", pending, by=ANNA)
    assert "pause it first" in refused.value.remedy
    assert await dispositions(database) == ["pending"]
    assert await dags.unpause(database, "nowhere", pending, by=ANNA) is None
    assert await dags.pause(database, "nowhere", by=ANNA) is None


async def test_a_second_pause_changes_nothing(database: Database) -> None:
    await declare(database, "a", dag("d", each("a")))
    await dags.pause(database, "d", by=ANNA, reason="first")
    await dags.pause(database, "d", by={"kind": "cli", "user": "bert"}, reason="second")
    assert await rows(database, "select kind, reason from intervention") == [("pause", "first")]


async def test_paused_again_before_a_join_was_judged(database: Database) -> None:
    """The events are held by the new pause, and what was asked for before is done when it ends."""
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", each("a")))
    await dags.pause(database, "d", by=ANNA)
    events = await event_ids(database, "a", "a")
    await dags.unpause(database, "d", "join", by=ANNA)
    await dags.pause(database, "d", by=ANNA)
    await scheduler.settle()
    assert await dispositions(database) == ["held", "held"]
    await dags.unpause(database, "d", by=ANNA)
    later = await event_ids(database, "a")
    await scheduler.settle()
    assert await members(database) == [events, later]
    await healthy(database)


@pytest.mark.parametrize("how", ["each", "join"])
async def test_what_a_person_released_during_a_pause(database: Database, how: storms.How) -> None:
    """It waits for the end of the pause, and is what it was released as; nobody looks in vain meanwhile."""
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", each("a"), max_runs_per_minute=1))
    events = await event_ids(database, "a", "a", "a", "a")
    await scheduler.settle()
    assert await members(database) == [events[:1]]
    await dags.pause(database, "d", by=ANNA)
    await storms.release(database, "d", how, by=ANNA)
    events += await event_ids(database, "a")
    await scheduler.settle()
    assert await dispositions(database) == ["started"] + ["held"] * 4
    assert await deliveries.find_consumers(database, 10) == []
    await dags.unpause(database, "d", by=ANNA)
    await scheduler.settle()
    released = [events[1:4]] if how == "join" else [[e] for e in events[1:4]]
    assert await members(database) == [events[:1], *released, events[4:]]
    await healthy(database)


@pytest.mark.parametrize("touch", ["edit", "release"])
async def test_only_what_comes_meanwhile_is_discarded(database: Database, touch: str) -> None:
    """What waited before the pause, or what a person let go on, is nothing that came meanwhile."""
    scheduler = Scheduler(database)
    schedule = together("a", "b")
    await declare(database, "a", "b", dag("d", schedule, while_paused="discard"))
    before = await event_ids(database, "a", "a")
    await scheduler.settle()
    if touch == "release":
        await rows(database, "update delivery set disposition = 'held', reason = 'loop'")
    await dags.pause(database, "d", by=ANNA)
    if touch == "edit":
        await declare(database, "a", "b", dag("d", schedule, while_paused="discard", max_active_runs=3))
    else:
        await storms.release(database, "d", "each", by=ANNA)
    await event_ids(database, "a")
    await scheduler.settle()
    assert await dispositions(database) == ["held", "held", "discarded"]
    await dags.unpause(database, "d", by=ANNA)
    completing = await event_ids(database, "b")
    await scheduler.settle()
    assert await members(database) == [before + completing]
    await healthy(database)


async def test_history_is_not_what_comes_meanwhile(database: Database) -> None:
    """A new DAG that begins paused, and wants what is stored, does not lose it before anybody could resume it."""
    await declare(database, "a", path="assets.py")
    stored = await event_ids(database, "a", "a")
    await declare(database, "a", dag("d", each("a"), catchup=True, while_paused="discard"), paused=True)
    await history.catch_up(database, 1, 1)
    scheduler = Scheduler(database)
    await scheduler.settle()
    assert await dispositions(database) == ["held", "held"]
    await dags.unpause(database, "d", by=ANNA)
    await scheduler.settle()
    assert await members(database) == [[e] for e in stored]
    await healthy(database)


@pytest.mark.parametrize("pending", ["join", "discard"])
async def test_a_resume_waits_for_who_judges(database_url: str, pending: OnResume) -> None:
    """It sees what the judge has held, and nothing of what it concerns is judged both ways."""
    async with pool(database_url, "gated") as judging, pool(database_url, "resuming") as resuming:
        await declare(resuming, "a", dag("d", each("a")))
        await dags.pause(resuming, "d", by=ANNA)
        await record(resuming, "a", "a")
        async with Gate.at(database_url, "delivery") as gate, asyncio.TaskGroup() as group:
            group.create_task(Scheduler(judging).judge.run_once())
            await gate.reached()
            done = group.create_task(dags.unpause(resuming, "d", pending, by=ANNA))
            await gate.waits("resuming")
            await gate.open()
        resumed = done.result()
        assert resumed is not None and resumed.released + resumed.discarded == 2
        await Scheduler(resuming).settle()
        expected = {"join": ["started", "joined"], "discard": ["discarded"] * 2}
        assert await dispositions(resuming) == expected[pending]
        await healthy(resuming)


@pytest.mark.parametrize("policy", ["each", "all", "window", "latest"])
async def test_pausing_and_resuming_in_every_way_loses_nothing(database_url: str, policy: Policy) -> None:
    async with pool(database_url, size=8) as database, pool(database_url, size=4) as outside:
        await declare(database, "a", dag("d", schedule_of(policy), max_active_runs=1000))
        over = asyncio.Event()
        ways: list[OnResume] = ["each", "join", "discard"]

        async def emit() -> None:
            for _ in range(40):
                await record(outside, "a", "a")

        async def switch() -> None:
            for n in range(24):
                await dags.pause(outside, "d", by=ANNA)
                await dags.unpause(outside, "d", ways[n % 3], by=ANNA)

        async def all_of_it() -> int:
            await together_all(emit(), emit(), switch())
            over.set()
            return 0

        await together_all(all_of_it(), *(until_quiet(Scheduler(database).judge.run_once, over) for _ in range(3)))
        await until_quiet(Scheduler(database).judge.run_once, over, 5)
        counted = await healthy(database)
        assert counted["deliveries"] == 160
        await eventually_none_is_open(database)


async def eventually_none_is_open(database: Database) -> None:
    scheduler = Scheduler(database)
    while await rows(database, "select 1 from delivery where disposition in ('pending', 'held') limit 1"):
        await scheduler.settle()


async def test_interventions_are_kept(database: Database) -> None:
    await declare(database, "a", dag("d", each("a")))
    await dags.pause(database, "d", by=ANNA, reason="x")
    await record(database, "a")
    await dags.unpause(database, "d", "discard", by=ANNA)
    found = await rows(
        database, "select kind, pending, by ->> 'user', reason, deliveries from intervention order by id"
    )
    assert found == [("pause", None, "anna", "x", 0), ("unpause", "discard", "anna", None, 1)]
