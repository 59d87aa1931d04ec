"""One watcher for many assets: what feeds what, under the lock of who records; edits; watchers that all run."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest
from ground import change, dag, declare, each, healthy, role, rows

from onceflow.model.dagspec import AssetSpec, WatcherSpec
from onceflow.model.errors import DagError, FencedError, InputError, StaleError
from onceflow.store import events, files, processes, watchers
from onceflow.store.database import Database
from onceflow.store.events import Ownership, Recorded
from onceflow.store.watchers import OwnedWatcher
from onceflow.triggerer.deliver import Batch, deliver

ANNA, BERT = uuid.UUID(int=1), uuid.UUID(int=2)
QUEUE = WatcherSpec("queue", "t.Queue", {"url": "q"}, where="f.py:1")
LEASE = 60.0


def fed(name: str, match: Any = None, **edited: Any) -> AssetSpec:
    """An asset that the queue feeds, with a match."""
    return AssetSpec(name, watchers=(replace(QUEUE, match=match, **edited),), where=f"{name}.py:1")


async def claim(database: Database, owner: uuid.UUID = ANNA) -> OwnedWatcher:
    [owned] = await watchers.claim(database, owner, 10, take_over=False)
    return owned


async def write(
    database: Database, watcher: OwnedWatcher, *changes: events.Change, owner: uuid.UUID = ANNA, **more: Any
) -> list[Recorded]:
    own = Ownership(watcher.id, owner, watcher.term, watcher.routes.number, shared=watcher.mode == "all")
    return await events.record_if_owner(database, own, changes, {"kind": "test"}, **more)


def batch(number: int, *payloads: Any, cursor: str | None = None, key: str | None = None) -> Batch:
    return Batch(number, [{"extra": json.dumps(p), "key": key} for p in payloads], cursor)


async def of(database: Database) -> list[tuple[str, int]]:
    """Events as (asset, n)."""
    return await rows(
        database, "select a.name, (e.extra ->> 'n')::int from event e join asset a on a.id = e.asset_id order by e.id"
    )


async def test_the_same_trigger_is_one_watcher_in_whatever_file(database: Database) -> None:
    """airflow #66476, #50369, PR#71460."""
    await declare(database, *(fed(f"a{n}", ["==", "n", n]) for n in range(25)), path="one.py")
    await declare(database, fed("b"), path="two.py")
    owned = await claim(database)
    assert [(r.asset, r.match) for r in owned.routes.routes][-1] == ("b", None)
    assert len(owned.routes.routes) == 26
    assert owned.routes.label == "a0/queue and 25 more"


async def test_a_change_is_an_event_of_each_asset_that_it_matches(database: Database) -> None:
    """In one transaction with the cursor; what matches nothing is counted, once however often it is sent."""
    await declare(
        database, fed("odd", ["in", "n", [1, 3]]), fed("big", [">", "n", 2]), dag("d", each("odd", "big")), path="f.py"
    )
    owned, start = await claim(database), uuid.uuid4()
    sent = batch(1, {"n": 1}, {"n": 2}, {"n": 3}, cursor='"c"')
    for _ in range(2):
        await deliver(replace_role(database), owned, start, sent, 1, owned.routes)
    assert sorted(await of(database)) == [("big", 3), ("odd", 1), ("odd", 3)]
    assert await rows(database, "select cursor::text, unmatched from watcher") == [('"c"', 1)]
    await healthy(database)


def replace_role(database: Database) -> Any:
    """A triggerer's role that has ANNA's id."""
    return replace(role(database, "triggerer"), id=ANNA)


async def test_an_asset_that_joins_or_leaves_meanwhile_is_noticed_under_the_lock(database: Database) -> None:
    """What was matched by the old set is refused, matched again by the new one, and is the same sighting."""
    await declare(database, fed("a"), path="a.py")
    owned, start = await claim(database), uuid.uuid4()
    await declare(database, fed("b"), path="b.py")
    with pytest.raises(StaleError):
        await write(database, owned, change("a"), cursor='"lost"')
    assert await rows(database, "select cursor from watcher") == [(None,)]
    feeds = await deliver(replace_role(database), owned, start, batch(1, {"n": 1}), 1, owned.routes)
    assert sorted(await of(database)) == [("a", 1), ("b", 1)]
    assert [r.asset for r in feeds.routes] == ["a", "b"]
    await files.register_removal(database, (await files.known(database))["a.py"])
    feeds = await deliver(replace_role(database), owned, start, batch(2, {"n": 2}), 2, feeds)
    assert sorted(await of(database)) == [("a", 1), ("b", 1), ("b", 2)]
    await files.register_removal(database, (await files.known(database))["b.py"])
    with pytest.raises(FencedError):
        await deliver(replace_role(database), owned, start, batch(3, {"n": 3}), 3, feeds)
    assert [o.generation for o in (await watchers.owned(database, ANNA, LEASE)).values()] == [0]


async def test_a_file_read_again_and_another_s_asset_restart_nothing(database: Database) -> None:
    """airflow #64625."""
    await declare(database, fed("a"), path="a.py")
    owned = await claim(database)
    for _ in range(100):
        await declare(database, fed("a"), path="a.py")
    await declare(database, fed("b"), path="b.py")
    [now] = (await watchers.owned(database, ANNA, LEASE)).values()
    assert (now.id, now.term, now.generation) == (owned.id, owned.term, owned.generation)
    assert await rows(database, "select routing from watcher") == [(owned.routes.number + 1,)]


@pytest.mark.parametrize("keep", [True, False])
async def test_edited_arguments_of_all_its_assets_are_the_same_watcher(database: Database, keep: bool) -> None:
    await declare(database, fed("a"), fed("b"), path="f.py")
    owned = await claim(database)
    await write(database, owned, cursor="7")
    edited = {"kwargs": {"url": "other"}, "keep_cursor": keep}
    await declare(database, fed("a", **edited), fed("b", **edited), path="f.py")
    with pytest.raises(FencedError):
        await write(database, owned, change("a"))
    await watchers.release(database, ANNA, [(owned.id, owned.term)])
    again = await claim(database, BERT)
    assert (again.id, again.kwargs, again.cursor) == (owned.id, {"url": "other"}, "7" if keep else None)


@pytest.mark.parametrize("keep", [True, False])
async def test_one_asset_that_goes_its_own_way_restarts_only_itself(database: Database, keep: bool) -> None:
    await declare(database, fed("a"), fed("b"), path="f.py")
    owned = await claim(database)
    await write(database, owned, cursor="7")
    await declare(database, fed("a", kwargs={"url": "other"}, keep_cursor=keep), fed("b"), path="f.py")
    own = await claim(database, BERT)
    assert (own.cursor, [r.asset for r in own.routes.routes]) == ("7" if keep else None, ["a"])
    [still] = (await watchers.owned(database, ANNA, LEASE)).values()
    assert (still.id, still.generation) == (owned.id, owned.generation)
    await deliver(replace_role(database), owned, uuid.uuid4(), batch(1, {"n": 1}), 1, owned.routes)
    assert await of(database) == [("b", 1)]


async def test_a_removed_watcher_that_returns_goes_on_from_its_cursor(database: Database) -> None:
    await declare(database, fed("a"), path="f.py")
    owned = await claim(database)
    await write(database, owned, cursor="7")
    await files.register_removal(database, (await files.known(database))["f.py"])
    await watchers.release(database, ANNA, [(owned.id, owned.term)])
    assert await watchers.claim(database, BERT, 10, take_over=True) == []
    await declare(database, fed("a"), path="g.py")
    again = await claim(database, BERT)
    assert (again.id, again.cursor) == (owned.id, "7")


async def test_files_that_contradict_each_other_about_a_match_are_told(database: Database) -> None:
    await declare(database, fed("a", ["==", "n", 1]), path="one.py")
    with pytest.raises(DagError, match=r"'queue' is declared otherwise in one\.py") as refused:
        await declare(database, fed("a", ["==", "n", 2]), path="two.py")
    assert refused.value.code == "conflict"


# Mode all ------------------------------------------------------------------------------------------------------------

SHARED = replace(QUEUE, mode="all")


async def join(database: Database, owner: uuid.UUID) -> OwnedWatcher:
    [found] = await watchers.join(database, owner, 10)
    return found


async def test_every_triggerer_runs_a_watcher_of_mode_all_once(database: Database) -> None:
    """What several tell is one event, with a witness; nobody owns it, and there is no share of it."""
    await declare(database, AssetSpec("a", watchers=(SHARED,)), dag("d", each("a")), path="f.py")
    share = await watchers.share(database, ANNA, take_over=True)
    assert (share.active, share.free, share.to_join) == (0, False, True)
    anna, bert = await join(database, ANNA), await join(database, BERT)
    assert await watchers.join(database, ANNA, 10) == []
    assert not (await watchers.share(database, ANNA, take_over=True)).to_join
    statuses = [
        (await write(database, w, change("a", "k"), owner=o))[0].status for w, o in ((anna, ANNA), (bert, BERT))
    ]
    assert statuses == ["stored", "duplicate"]
    assert (await healthy(database))["events"] == 1


async def test_a_dead_triggerer_s_row_goes_and_its_late_write_is_refused(database: Database) -> None:
    await declare(database, AssetSpec("a", watchers=(SHARED,)), path="f.py")
    await processes.register(database, ANNA, "triggerer", LEASE)
    anna = await join(database, ANNA)
    await join(database, BERT)
    await processes.bury(database, [ANNA])
    assert await rows(database, "select owner from watching") == [(BERT,)]
    with pytest.raises(FencedError):
        await write(database, anna, change("a", "k"))


async def test_a_failure_is_that_of_one_triggerer(database: Database) -> None:
    await declare(database, AssetSpec("a", watchers=(SHARED,)), path="f.py")
    anna, bert = await join(database, ANNA), await join(database, BERT)
    await watchers.fail(database, ANNA, anna.id, anna.term, {"message": "no route"})
    assert await watchers.join(database, ANNA, 10) == []
    assert [r.status for r in await write(database, bert, change("a", "k"), owner=BERT)] == ["stored"]
    assert await rows(database, "select strikes, running from watching order by owner") == [(1, False), (0, True)]
    await rows(database, "update watching set next_try_at = '-infinity' where owner = $1", ANNA)
    again = await join(database, ANNA)
    assert (again.term, again.strikes) == (2, 1)
    with pytest.raises(FencedError):
        await write(database, anna, change("a", "k"))


async def test_edited_code_starts_it_again_everywhere(database: Database) -> None:
    await declare(database, AssetSpec("a", watchers=(replace(SHARED, code="1"),)), path="f.py")
    anna = await join(database, ANNA)
    await declare(database, AssetSpec("a", watchers=(replace(SHARED, code="2"),)), path="f.py")
    with pytest.raises(FencedError):
        await write(database, anna, change("a", "k"))
    [now] = (await watchers.owned(database, ANNA, LEASE)).values()
    assert now.generation == anna.generation + 1
    await watchers.release(database, ANNA, [(anna.id, anna.term)])
    assert (await join(database, ANNA)).code == "2"


async def test_what_nothing_identifies_is_refused_in_mode_all(database: Database) -> None:
    """The parse cannot see everything: at the latest when it is told, it is the watcher's error."""
    await declare(database, AssetSpec("a", watchers=(SHARED,)), path="f.py")
    anna = await join(database, ANNA)
    with pytest.raises(InputError, match="without a key"):
        await write(database, anna, change("a"))
    with pytest.raises(InputError, match="yielded a cursor"):
        await deliver(replace_role(database), anna, uuid.uuid4(), batch(1, {}, cursor="1", key="k"), 1, anna.routes)


# Canaries ------------------------------------------------------------------------------------------------------------


async def test_a_canary_waits_for_what_was_stored_before_it(database: Database) -> None:
    await declare(database, fed("a", canary=60.0), dag("d", each("a")), path="f.py")
    owned = await claim(database)
    await write(database, owned, change("a"))
    await watchers.store_canary(database, ANNA, owned.id, owned.term, made_ago=3.0, noticed_ago=1.0)
    assert await watchers.judge_canaries(database) == (0, True)
    await watchers.store_canary(database, ANNA, owned.id, owned.term, made_ago=0.0, noticed_ago=0.0)
    [(age,)] = await rows(database, "select extract(epoch from stored_at - made_at)::int from canary")
    assert age == 3, "one that waits stays"
    await rows(database, "update delivery set judged = true")
    assert await watchers.judge_canaries(database) == (1, False)
    [(delay,)] = await rows(database, "select delay from canary")
    assert delay >= 3.0
    await healthy(database)


async def test_a_stale_owner_stores_no_canary(database: Database) -> None:
    await declare(database, fed("a", canary=60.0), path="f.py")
    owned = await claim(database)
    await watchers.store_canary(database, BERT, owned.id, owned.term, made_ago=3.0, noticed_ago=1.0)
    await watchers.store_canary(database, ANNA, owned.id, owned.term - 1, made_ago=3.0, noticed_ago=1.0)
    assert await rows(database, "select watcher_id from canary") == []
