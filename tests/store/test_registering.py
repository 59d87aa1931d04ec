"""Registering DAG files: N dag-processors, broken and removed files, things that move, and contradictions."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

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
    healthy,
    let_lapse,
    pool,
    record,
    rows,
    together,
    together_all,
)

from onceflow.model.dagspec import (
    AssetSpec,
    CronSchedule,
    DagSpec,
    FileSpec,
    IntervalSchedule,
    ParseFailure,
    WatcherSpec,
)
from onceflow.model.errors import DagError, NotFoundError
from onceflow.queries.explain import history_text
from onceflow.queries.why import why_event
from onceflow.queries.why_not import why_not
from onceflow.store import dags, files, history
from onceflow.store.database import Database
from onceflow.store.files import KnownFile


async def register(database: Database, file: KnownFile, *declared: DagSpec, assets: tuple[AssetSpec, ...] = ()) -> bool:
    spec = FileSpec(file.path, uuid.uuid4().hex, declared, assets)
    return await files.register(database, file, spec, b"code", paused=False, parse_seconds=0.0)


async def dispositions(database: Database) -> dict[int, tuple[str, str | None]]:
    found = await rows(database, "select event_id, disposition::text, reason from delivery order by event_id")
    return {event: (disposition, reason) for event, disposition, reason in found}


async def break_file(database: Database, path: str) -> None:
    known = (await files.known(database))[path]
    failure = ParseFailure(path, uuid.uuid4().hex, "syntax", "invalid syntax", f"{path}:3")
    assert await files.register_failure(database, known, failure, 0.0)


async def remove_file(database: Database, path: str) -> None:
    assert await files.register_removal(database, (await files.known(database))[path])


async def test_the_first_of_two_with_the_same_term_wins(database: Database) -> None:
    file = await files.add(database, "d.py")
    first, second = dag("d", each("a"), "one"), dag("d", each("b"), "two")
    assets = (AssetSpec("a"), AssetSpec("b"))
    won = await together_all(*(register(database, file, d, assets=assets) for d in (first, second)))
    assert sorted(won) == [False, True]
    assert await rows(database, "select term from dag_file") == [(1,)]
    assert await rows(database, "select count(*) from dag_version") == [(1,)]
    assert len(await rows(database, "select 1 from subscription")) == 1
    assert not await files.register_failure(database, file, ParseFailure("d.py", "", "x", "y", "d.py:1"), 0.0)
    assert not await files.register_removal(database, file)
    await healthy(database)


async def test_one_that_waited_for_the_winner_loses(database_url: str) -> None:
    async with pool(database_url, "gated") as winner, pool(database_url, "late") as late:
        file = await files.add(late, "d.py")
        async with Gate.at(database_url, "dag", "insert") as gate, asyncio.TaskGroup() as group:
            one = group.create_task(register(winner, file, dag("d")))
            await gate.reached()
            other = group.create_task(register(late, file, dag("e", file="d.py")))
            await gate.waits("late")
            await gate.open()
        assert (one.result(), other.result()) == (True, False)
        assert await rows(late, "select dag_id from dag") == [("d",)]


async def test_the_same_file_again_makes_no_version(database: Database) -> None:
    for _ in range(3):
        await declare(database, "a", dag("d", each("a")))
    assert await rows(database, "select number from dag_version") == [(1,)]
    await declare(database, "a", dag("d", each("a"), "other"))
    assert await rows(database, "select number from dag_version order by 1") == [(1,), (2,)]


async def test_a_broken_file_keeps_its_subscriptions(database: Database) -> None:
    await declare(database, "a", dag("d", each("a")))
    await break_file(database, "d.py")
    [event] = await record(database, "a")
    await Scheduler(database).settle()
    assert await dispositions(database) == {event.event_id: ("started", None)}
    await healthy(database)


async def test_a_removed_file_gets_no_new_deliveries_and_keeps_those_it_had(database: Database) -> None:
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", each("a")))
    await declare(database, "a", path="assets.py")
    [before] = await record(database, "a")
    await remove_file(database, "d.py")
    await record(database, "a")
    await scheduler.settle()
    assert await dispositions(database) == {before.event_id: ("held", "inactive")}
    await let_lapse(database)
    await declare(database, "a", dag("d", each("a")))
    [after] = await record(database, "a")
    await scheduler.settle()
    assert await dispositions(database) == {before.event_id: ("started", None), after.event_id: ("started", None)}
    assert await rows(database, "select from_seq, until_seq from subscription order by 1") == [(1, 2), (3, None)]
    await healthy(database)


async def test_a_dag_no_longer_in_its_file_is_stale(database: Database) -> None:
    await declare(database, "a", dag("d", each("a"), file="f.py"), dag("e", each("a"), file="f.py"))
    await declare(database, "a", dag("d", each("a"), file="f.py"))
    [event] = await record(database, "a")
    assert await rows(database, "select dag_id, active from dag order by 1") == [("d", True), ("e", False)]
    assert len(await rows(database, "select 1 from delivery where event_id = $1", event.event_id)) == 1
    await healthy(database)


async def test_an_asset_no_longer_scheduled_on_holds_what_was_pending(database: Database) -> None:
    """Held with the reason, and pending again when the asset returns to the schedule."""
    scheduler = Scheduler(database)
    await declare(database, "a", "b", "c", dag("d", together("a", "b")))
    [first] = await record(database, "a")
    await declare(database, "a", "b", "c", dag("d", together("b", "c")))
    await scheduler.settle()
    assert await dispositions(database) == {first.event_id: ("held", "unscheduled")}
    await declare(database, "a", "b", "c", dag("d", together("a", "c")))
    [second] = await record(database, "c")
    await scheduler.settle()
    assert await dispositions(database) == {first.event_id: ("joined", None), second.event_id: ("started", None)}
    await healthy(database)


async def test_an_edit_is_judged_anew(database: Database) -> None:
    """What was judged and waited for a second asset is taken once the condition no longer asks for it."""
    scheduler = Scheduler(database)
    await declare(database, "a", "b", dag("d", together("a", "b")))
    await record(database, "a", "a")
    await scheduler.settle()
    assert await rows(database, "select count(*) from run") == [(0,)]
    await declare(database, "a", "b", dag("d", each("a", "b")))
    await scheduler.settle()
    assert await rows(database, "select count(*) from run") == [(2,)]
    await healthy(database)


async def test_a_dag_moves_to_another_file(database: Database) -> None:
    """It is refused while the old file has it, and goes on as the same DAG afterwards."""
    scheduler = Scheduler(database)
    await declare(database, "a", dag("d", each("a"), file="old.py"))
    await record(database, "a")
    moved = dag("d", each("a"), file="new.py")
    with pytest.raises(DagError, match=r"'d' is defined in old\.py already") as caught:
        await declare(database, "a", moved)
    assert (caught.value.code, caught.value.where) == ("conflict", "new.py:1")
    await remove_file(database, "old.py")
    await declare(database, "a", moved)
    await record(database, "a")
    await scheduler.settle()
    assert await rows(
        database, "select d.dag_id, f.path, d.ordinal from dag d join dag_file f on f.id = d.file_id"
    ) == [("d", "new.py", 2)]
    await remove_is_no_longer_its(database)
    await healthy(database)


async def remove_is_no_longer_its(database: Database) -> None:
    """The old file's coming back, empty, does not take the DAG away."""
    await declare(database, path="old.py")
    assert await rows(database, "select active from dag") == [(True,)]


async def test_a_dag_moves_while_its_old_file_is_removed(database_url: str) -> None:
    """By two dag-processors, and off one of its assets, in whichever order: it is active in its new file at the end."""
    async with pool(database_url) as database:
        for i in range(8):
            old, new = f"old{i}.py", f"new{i}.py"
            await declare(database, "a", "b", dag(f"d{i}", each("a", "b"), file=old), path=old)
            moved = await files.add(database, new)

            async def move(file: KnownFile = moved, i: int = i) -> None:
                spec = dag(f"d{i}", each("a"), file=file.path)
                declared = FileSpec(file.path, uuid.uuid4().hex, (spec,), (AssetSpec("a"),))
                gone = {f"old{i}.py"}
                await files.register(database, file, declared, b"", paused=False, parse_seconds=0.0, gone=gone)

            async def emit() -> None:
                with suppress(NotFoundError):  # if the old file was gone before, `b` is nobody's
                    await record(database, "a", "b")

            await together_all(move(), emit(), remove_file(database, old))
        found = await rows(
            database, "select d.active, f.path from dag d join dag_file f on f.id = d.file_id order by d.id"
        )
        assert found == [(True, f"new{i}.py") for i in range(8)]
        await healthy(database)
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0


async def test_a_dag_is_renamed(database: Database) -> None:
    await declare(database, "a", dag("before", each("a"), file="d.py"))
    [event] = await record(database, "a")
    await declare(database, "a", dag("after", each("a"), file="d.py", previous_id="before"))
    assert await rows(database, "select dag_id, active from dag") == [("after", True)]
    await Scheduler(database).settle()
    assert await dispositions(database) == {event.event_id: ("started", None)}
    await healthy(database)


@pytest.mark.parametrize("path", ["d.py", "other.py"])
async def test_a_dag_that_is_still_there_is_not_renamed(database: Database, path: str) -> None:
    """A copy that kept its `previous_id` would take the old DAG's runs and pending events along."""
    await declare(database, "a", dag("before", each("a")), path="d.py")
    [event] = await record(database, "a")
    copy = dag("after", each("a"), file=path, previous_id="before")
    both = (dag("before", each("a")), copy) if path == "d.py" else (copy,)
    with pytest.raises(DagError, match=r"'after' has previous_id 'before', which is still defined in d\.py"):
        await declare(database, "a", *both, path=path)
    assert await rows(database, "select dag_id, active from dag") == [("before", True)]
    await Scheduler(database).settle()
    assert await dispositions(database) == {event.event_id: ("started", None)}


async def test_two_files_with_the_same_new_dag_at_once(database: Database) -> None:
    """One has it; the other is told where it is."""
    outcomes = await together_all(*(_outcome(declare(database, dag("d", file=f"f{i}.py"))) for i in range(4)))
    refused = [o for o in outcomes if isinstance(o, DagError)]
    assert len(refused) == 3 and outcomes.count(True) == 1
    [(path,)] = await rows(database, "select f.path from dag d join dag_file f on f.id = d.file_id")
    assert all(f"defined in {path} already" in str(e) for e in refused)
    assert await rows(database, "select count(*) from dag_file where term > 0") == [(1,)]


async def test_two_assets_with_the_same_uri_are_named_with_both_places(database: Database) -> None:
    await declare(database, AssetSpec("a", "s3://x", where="one.py:4"), path="one.py")
    with pytest.raises(DagError, match=r"'b' .*'s3://x'.*'a' .*one\.py \(one\.py:4\)") as caught:
        await declare(database, AssetSpec("b", "s3://x", where="two.py:7"), path="two.py")
    assert (caught.value.code, caught.value.where) == ("conflict", "two.py:7")


async def test_one_asset_with_two_uris_is_named_with_both_places(database: Database) -> None:
    await declare(database, AssetSpec("a", where="zero.py:1"), path="zero.py")
    await declare(database, AssetSpec("a", "s3://x", where="one.py:4"), path="one.py")
    await declare(database, AssetSpec("a", "s3://x", where="again.py:4"), path="again.py")
    with pytest.raises(DagError, match=r"'s3://y'.*'s3://x'.*(one|again)\.py:4") as caught:
        await declare(database, AssetSpec("a", "s3://y", where="two.py:7"), path="two.py")
    assert caught.value.where == "two.py:7"


@pytest.mark.parametrize(("name", "uri"), [("s3://x", ""), ("b", "a")])
async def test_a_name_that_is_another_s_uri_is_refused(database: Database, name: str, uri: str) -> None:
    await declare(database, AssetSpec("a", "s3://x", where="one.py:4"), path="one.py")
    with pytest.raises(DagError, match=r"one\.py:4"):
        await declare(database, AssetSpec(name, uri, where="two.py:7"), path="two.py")


@pytest.mark.parametrize(
    "pair",
    [
        (AssetSpec("a", "s3://x"), AssetSpec("b", "s3://x")),
        (AssetSpec("a", "s3://x"), AssetSpec("a", "s3://y")),
        (AssetSpec("a", "s3://x"), AssetSpec("s3://x")),
    ],
    ids=["same uri", "two uris", "name is uri"],
)
async def test_contradicting_assets_declared_at_once(database: Database, pair: tuple[AssetSpec, AssetSpec]) -> None:
    """Checked under the lock: of two dag-processors at once exactly one is refused, with the place of the other."""
    for i in range(6):
        one, two = (AssetSpec(f"{a.name}{i}", a.uri and f"{a.uri}{i}", where=f"{n}.py:1") for n, a in enumerate(pair))
        attempts = (declare(database, one, path=f"{i}.0.py"), declare(database, two, path=f"{i}.1.py"))
        outcomes = await together_all(*(_outcome(a) for a in attempts))
        [refused] = [o for o in outcomes if isinstance(o, DagError)]
        assert refused.code == "conflict"
        assert f"{i}.{outcomes.index(True)}.py" in str(refused)


async def test_an_asset_is_renamed_and_keeps_its_uri(database: Database) -> None:
    await declare(database, AssetSpec("a", "s3://x"), dag("d", each("a")))
    await declare(database, AssetSpec("b", "s3://x"), dag("d", each("b")))
    assert await rows(database, "select name, uri, active from asset order by name") == [
        ("a", "s3://x", False),
        ("b", "s3://x", True),
    ]
    await record(database, "s3://x")
    assert (await healthy(database))["deliveries"] == 1
    await declare(database, "a", path="elsewhere.py")  # it may come back, without the URI that is another's now
    assert await rows(database, "select uri from asset where name = 'a'") == [("",)]


async def test_two_assets_change_places(database: Database) -> None:
    await declare(database, AssetSpec("a", "s3://x"), AssetSpec("b", "s3://y"), path="f.py")
    await declare(database, AssetSpec("a", "s3://y"), AssetSpec("b", "s3://x"), path="f.py")
    assert await rows(database, "select name, uri from asset order by name") == [("a", "s3://y"), ("b", "s3://x")]


async def test_a_watcher_with_other_arguments_is_named_with_both_places(database: Database) -> None:
    def with_watcher(path: str, **kwargs: Any) -> AssetSpec:
        return AssetSpec("a", watchers=(WatcherSpec("w", "t.Poll", kwargs, where=f"{path}:9"),), where=f"{path}:8")

    await declare(database, with_watcher("one.py", url="x"), path="one.py")
    await declare(database, with_watcher("same.py", url="x"), path="same.py")
    with pytest.raises(DagError, match=r"'w' .*(one|same)\.py:9") as caught:
        await declare(database, with_watcher("two.py", url="y"), path="two.py")
    assert (caught.value.code, caught.value.where) == ("conflict", "two.py:9")
    await remove_file(database, "one.py")
    assert await rows(database, "select active from watcher") == [(True,)]
    await remove_file(database, "same.py")
    assert await rows(database, "select active from watcher") == [(False,)]
    await declare(database, with_watcher("two.py", url="y"), path="two.py")
    assert await rows(database, "select active, kwargs::text from watcher") == [(True, '{"url": "y"}')]


async def test_a_refused_file_changes_nothing(database: Database) -> None:
    await declare(database, AssetSpec("a", "s3://x"), path="one.py")
    before = await rows(database, "select name, uri, active from asset")
    with pytest.raises(DagError):
        await declare(database, "new", AssetSpec("b", "s3://x"), dag("d", each("new")))
    assert await rows(database, "select name, uri, active from asset") == before
    assert (await files.known(database))["d.py"].term == 0


async def test_an_asset_that_nobody_declares_is_inactive(database: Database) -> None:
    await declare(database, "a", "b", path="one.py")
    await declare(database, "b", path="two.py")
    await remove_file(database, "one.py")
    assert await rows(database, "select name, active from asset order by 1") == [("a", False), ("b", True)]
    await declare(database, "a", path="two.py")
    assert await rows(database, "select name, active from asset order by 1") == [("a", True), ("b", False)]


async def test_many_files_at_once(database_url: str) -> None:
    """Shared assets, DAGs over several of them, events meanwhile: no deadlock, nothing out of step."""
    names = [f"a{i}" for i in range(4)]
    async with pool(database_url, size=6) as database:
        await declare(database, *names, path="assets.py")

        async def files_of(processor: int) -> None:
            for i in range(10):
                some = [*dict.fromkeys(names[(processor + i) % 4 :] + names[: i % 3])]
                await declare(database, *some[::-1], dag(f"d{processor}", each(*some)))

        async def emitter() -> None:
            for i in range(20):
                await record(database, *(change(n, f"{i}") for n in names[:: 1 if i % 2 else -1]))

        await together_all(*(files_of(i) for i in range(4)), emitter())
        await healthy(database)
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0


async def test_an_edit_during_judging_waits_and_is_judged_anew(database_url: str) -> None:
    """The judge decided by the version it had locked; what the edit makes possible is found afterwards."""
    async with pool(database_url, "gated") as judging, pool(database_url, "editing") as editing:
        await declare(editing, "a", "b", dag("d", together("a", "b")))
        await record(editing, "a")
        async with Gate.at(database_url, "delivery", "update") as gate, asyncio.TaskGroup() as group:
            group.create_task(Scheduler(judging).judge.run_once())
            await gate.reached()
            group.create_task(declare(editing, "a", "b", dag("d", each("a", "b"))))
            await gate.waits("editing")
            await gate.open()
        await Scheduler(editing).settle()
        assert await rows(editing, "select count(*) from run") == [(1,)]
        await healthy(editing)


async def test_a_cap_is_edited_and_a_dag_comes_paused(database: Database) -> None:
    await declare(database, dag("d", max_active_runs=3), paused=True)
    assert await rows(database, "select paused, max_active_runs from dag") == [(True, 3)]
    await dags.unpause(database, "d", by={})
    await declare(database, dag("d", max_active_runs=5), paused=True)
    assert await rows(database, "select paused, max_active_runs from dag") == [(False, 5)]
    await declare(database, dag("e", paused_on_creation=False), paused=True)
    assert await rows(database, "select paused from dag where dag_id = 'e'") == [(False,)]


async def test_timing_is_kept_unless_it_is_edited(database: Database) -> None:
    """An edit of anything else leaves anchor and next slot alone."""
    start = datetime(2030, 1, 1, tzinfo=UTC)
    hourly = IntervalSchedule(3600.0)
    await declare(database, dag("d", hourly, start_date=start))
    [(anchor, next_slot)] = await rows(database, "select anchor_at, next_slot_at from dag")
    assert anchor == start and next_slot == start
    await rows(database, "update dag set next_slot_at = '2030-01-01 05:00+00'")
    await declare(database, dag("d", hourly, "another", start_date=start))
    assert await rows(database, "select anchor_at, extract(hour from next_slot_at) from dag") == [(start, 5)]
    await declare(database, dag("d", CronSchedule("30 6 * * *"), start_date=start))
    assert await rows(database, "select extract(hour from next_slot_at), schedule_kind from dag") == [(6, "cron")]


async def _outcome(work: Any) -> Any:
    try:
        return await work
    except DagError as error:
        return error


async def test_a_dag_whose_old_file_is_removed_first_misses_nothing(database: Database) -> None:
    """A move is a removal and a registration, in any order, perhaps by two dag-processors: nothing lapses meanwhile."""
    await declare(database, "a", "b", path="assets.py")
    await declare(database, "a", "b", dag("d", each("a", "b")), path="old.py")
    [before] = await record(database, "a")
    await remove_file(database, "old.py")
    between = await record(database, "a", "a")
    await declare(database, "a", "b", dag("d", each("a", "b")), path="new.py")
    [after] = await record(database, "a")
    await Scheduler(database).settle()
    while await history.find(database, 10):
        for asset, consumer in await history.find(database, 10):
            await history.catch_up(database, asset, consumer)
    await Scheduler(database).settle()
    told = {r.event_id: ("started", None) for r in (before, *between, after)}
    assert await dispositions(database) == told
    await healthy(database)


@pytest.mark.parametrize("away", ["the file", "the dag"])
async def test_a_dag_that_is_away_for_a_moment_misses_nothing(database: Database, away: str) -> None:
    """airflow #59337: a file is taken away and put back, or seen while it is half written."""
    await declare(database, "a", path="assets.py")
    await declare(database, "a", dag("d", each("a")), path="d.py")
    [before] = await record(database, "a")
    if away == "the file":
        await remove_file(database, "d.py")
    else:
        await declare(database, "a", path="d.py")
    [between] = await record(database, "a")
    told = await why_event(database, between.event_id)
    [other] = told["not_subscribed"]
    assert "it was until" in other["because"] and "no file defined the DAG" in other["because"]
    await declare(database, "a", dag("d", each("a")), path="d.py")
    assert "caught up" in (await why_event(database, between.event_id))["not_subscribed"][0]["because"]
    [after] = await record(database, "a")
    for asset, consumer in await history.find(database, 10):
        await history.catch_up(database, asset, consumer)
    await Scheduler(database).settle()
    assert await dispositions(database) == {e.event_id: ("started", None) for e in (before, between, after)}
    assert (await why_event(database, between.event_id))["not_subscribed"] == []
    known = await why_not(database, "d", datetime.now(UTC) - timedelta(hours=1))
    told = [history_text(e) for e in known["history"] if "subscri" in e["what"]]
    assert told == [
        "subscribed to a",
        "its subscription to a ended, because: no file defined the DAG",
        "subscribed to a",
    ]
    await healthy(database)


async def test_what_was_removed_longer_ago_or_unscheduled_was_not_moved(database: Database) -> None:
    await declare(database, "a", path="assets.py")
    for name in ("late", "edited"):
        await declare(database, "a", dag(name, each("a")), path=f"{name}.py")
    await declare(database, dag("edited"), path="edited.py")
    await remove_file(database, "edited.py")
    await remove_file(database, "late.py")
    await let_lapse(database)
    await record(database, "a")
    for name in ("late", "edited"):
        await declare(database, "a", dag(name, each("a")), path=f"moved_{name}.py")
    assert await history.find(database, 10) == []
    assert await dispositions(database) == {}
