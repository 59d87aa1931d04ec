"""Watchers: one owner with one term; a stale owner writes nothing, whenever it wakes (G2, G5)."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from typing import Any

import pytest
from ground import (
    SOURCE,
    Gate,
    change,
    connected,
    dag,
    deadlocks,
    declare,
    each,
    healthy,
    pool,
    record,
    together_all,
    without_result,
)

from onceflow.model.dagspec import AssetSpec, WatcherSpec
from onceflow.model.errors import FencedError
from onceflow.store import events, processes, watchers
from onceflow.store.database import Database
from onceflow.store.events import Ownership, Recorded
from onceflow.store.watchers import OwnedWatcher

LEASE = 60.0
ANNA, BERT, CARL = uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=3)


def watched(name: str, *watcher_names: str, **kwargs: Any) -> AssetSpec:
    """An asset with watchers, which have these arguments."""
    specs = tuple(
        WatcherSpec(n, "t.Poll", {"n": n} | kwargs, where=f"{name}.py:2") for n in watcher_names or ("watch",)
    )
    return AssetSpec(name, watchers=specs, where=f"{name}.py:1")


async def claim(
    database: Database, owner: uuid.UUID, limit: int = 1000, *, take_over: bool = False
) -> list[OwnedWatcher]:
    """Claim as a triggerer that is ready."""
    async with database._acquire() as raw:
        await raw.execute(
            "insert into process (id, kind, host, pid, parent_pid, version, lease_until, ready_until) "
            "values ($1, 'triggerer', '', 1, 1, '', now() + interval '1 h', now() + interval '1 h') "
            "on conflict (id) do update set lease_until = excluded.lease_until, ready_until = excluded.ready_until",
            owner,
        )
    return await watchers.claim(database, owner, limit, take_over=take_over)


async def write(
    database: Database, owner: uuid.UUID, watcher: OwnedWatcher, *changes: events.Change, cursor: object = None
) -> list[Recorded]:
    """What the owner's trigger yielded."""
    text = None if cursor is None else json.dumps(cursor)
    return await events.record_if_owner(
        database, Ownership(watcher.id, owner, watcher.term, watcher.routes.number), changes, SOURCE, cursor=text
    )


async def run_out(database: Database) -> None:
    """No process is ready any more."""
    async with database._acquire() as raw:
        await raw.execute("update process set ready_until = clock_timestamp() - interval '1 s'")


async def kept(database: Database, owner: uuid.UUID) -> dict[int, int]:
    """What it still owns: generations by id."""
    return {i: o.generation for i, o in (await watchers.owned(database, owner, LEASE)).items()}


async def test_a_watcher_has_one_owner(database: Database) -> None:
    """Eight triggerers at once: every watcher is claimed by exactly one."""
    await declare(database, watched("a", *(f"w{i}" for i in range(40))))
    owners = [uuid.UUID(int=i) for i in range(1, 9)]
    claimed = await together_all(*(claim(database, o, 7) for o in owners))
    counts = Counter(w.id for owned in claimed for w in owned)
    assert set(counts.values()) == {1}
    assert {w.term for owned in claimed for w in owned} == {1}
    rest = await claim(database, ANNA)
    assert len(counts) + len(rest) == 40


async def test_only_so_many_are_claimed(database: Database) -> None:
    await declare(database, watched("a", "v", "w"))
    assert len(await claim(database, ANNA, 1)) == 1
    assert len(await claim(database, BERT)) == 1
    assert await claim(database, BERT, take_over=True) == []


async def test_the_owner_writes_events_and_cursor_together(database: Database) -> None:
    await declare(database, watched("a"), dag("d", each("a")))
    [mine] = await claim(database, ANNA)
    assert mine.cursor is None
    [answer] = await write(database, ANNA, mine, change("a", "k"), cursor={"at": 1})
    assert answer.status == "stored"
    await write(database, ANNA, mine, cursor={"at": 2})  # seen and found nothing new
    await write(database, ANNA, mine, change("a"))  # no cursor: the old one stays
    await watchers.release(database, ANNA, [(mine.id, mine.term)])
    [next_] = await claim(database, BERT)
    assert json.loads(next_.cursor or "") == {"at": 2}
    assert next_.term == mine.term + 1
    await healthy(database)


async def test_a_stale_owner_writes_nothing(database: Database) -> None:
    """Frozen, replaced, awake again: its write is refused and neither its event nor its cursor is stored."""
    await declare(database, watched("a"), dag("d", each("a")))
    [stale] = await claim(database, ANNA)
    await write(database, ANNA, stale, change("a", "1"), cursor=1)
    await run_out(database)
    assert await claim(database, BERT) == []  # after an outage nobody takes over at once
    [fresh] = await claim(database, BERT, take_over=True)
    assert json.loads(fresh.cursor or "") == 1
    for changes in ([change("a", "2")], []):
        with pytest.raises(FencedError):
            await write(database, ANNA, stale, *changes, cursor=2)
    assert await kept(database, ANNA) == {}
    await watchers.observed(database, ANNA, [(stale.id, stale.term)])
    await watchers.release(database, ANNA, [(stale.id, stale.term)])
    await watchers.fail(database, ANNA, stale.id, stale.term, {"message": "late"})
    await watchers.pause(database, ANNA, stale.id, stale.term, 60)
    assert await kept(database, BERT) == {fresh.id: 1}
    assert [json.loads(c) for [c] in await _query(database, "select cursor from watcher")] == [1]
    assert (await healthy(database))["events"] == 1


async def test_the_same_owner_with_an_older_term_is_stale_too(database: Database) -> None:
    await declare(database, watched("a"))
    [old] = await claim(database, ANNA)
    await watchers.release(database, ANNA, [(old.id, old.term)])
    [new] = await claim(database, ANNA)
    with pytest.raises(FencedError):
        await write(database, ANNA, old, change("a"))
    assert [r.status for r in await write(database, ANNA, new, change("a"))] == ["stored"]


async def test_a_stale_owner_that_waited_for_the_takeover_writes_nothing(database_url: str) -> None:
    """Its statement began while it still was the owner; the row it waited for says otherwise."""
    async with pool(database_url, "gated") as taking, pool(database_url, "stale") as stale:
        await declare(stale, watched("a"), dag("d", each("a")))
        [old] = await claim(stale, ANNA)
        await run_out(stale)
        async with Gate.at(database_url, "watcher", "update", "after") as gate, asyncio.TaskGroup() as group:
            takeover = group.create_task(claim(taking, BERT, take_over=True))
            await gate.reached()  # the takeover holds the row and has not committed
            late = group.create_task(_outcome(write(stale, ANNA, old, change("a"), cursor=9)))
            await gate.waits("stale")
            await gate.open()
        assert isinstance(late.result(), FencedError)
        assert [w.cursor for w in takeover.result()] == [None]
        assert (await healthy(stale))["events"] == 0


async def test_the_new_owner_reads_the_cursor_that_was_committed_last(database_url: str) -> None:
    """The old owner's write is under way: the takeover passes the row by, and later gets what it wrote."""
    async with pool(database_url, "gated") as old, pool(database_url, "new") as new:
        await declare(new, watched("a"), dag("d", each("a")))
        [mine] = await claim(old, ANNA)
        await run_out(new)
        async with Gate.at(database_url, "event", "insert") as gate, asyncio.TaskGroup() as group:
            writing = group.create_task(write(old, ANNA, mine, change("a"), cursor=7))
            await gate.reached()
            assert await claim(new, BERT, take_over=True) == []
            await gate.open()
        assert [r.status for r in writing.result()] == ["stored"]
        [theirs] = await claim(new, BERT, take_over=True)
        assert json.loads(theirs.cursor or "") == 7


async def test_a_claim_whose_answer_was_lost_is_seen_to_be_owned(database: Database) -> None:
    """What a process owns it compares with what it runs; what was claimed just now may still be on its way."""
    await declare(database, watched("a", "v", "w"))
    known, lost = await claim(database, ANNA)
    assert [o.settled for o in (await watchers.owned(database, ANNA, LEASE)).values()] == [False, False]
    owned = await watchers.owned(database, ANNA, -1.0)
    assert {o.id: o.settled for o in owned.values()} == {known.id: True, lost.id: True}
    await watchers.release(database, ANNA, [(lost.id, owned[lost.id].term)])
    assert [w.id for w in await claim(database, BERT)] == [lost.id]


async def test_the_watchers_of_an_owner_that_is_no_more_are_taken_over(database: Database) -> None:
    """It was declared dead and its row is gone, or it claimed after it had been buried: either counts for nothing."""
    await declare(database, watched("a", "v", "w"))
    await claim(database, ANNA, 1)
    await _query(database, "delete from process")
    await claim(database, BERT, 1)
    assert len(await claim(database, CARL, take_over=True)) == 1
    await processes.stop(database, BERT)
    await processes.release(database, [BERT])
    [_] = await claim(database, BERT)
    await _query(database, "update process set state = 'dead', ended_at = now() where id = $1", BERT)
    assert len(await claim(database, CARL, take_over=True)) == 1


async def test_a_watcher_released_is_free_at_once(database: Database) -> None:
    await declare(database, watched("a"))
    [mine] = await claim(database, ANNA)
    await watchers.release(database, ANNA, [(mine.id, mine.term)])
    assert len(await claim(database, BERT)) == 1


async def test_a_dead_process_owns_nothing(database: Database) -> None:
    await declare(database, watched("a", "v", "w"))
    old = await claim(database, ANNA)
    assert await processes.bury(database, [ANNA]) == [ANNA]
    assert not await processes.renew(database, ANNA, LEASE)
    assert len(await claim(database, BERT)) == 2
    for watcher in old:
        with pytest.raises(FencedError):
            await write(database, ANNA, watcher, change("a"))


async def test_a_process_is_dead_when_its_lease_ran_out(database: Database) -> None:
    await processes.register(database, ANNA, "triggerer", -1.0)
    await processes.register(database, BERT, "triggerer", LEASE)
    assert await processes.live(database, "triggerer") == 1
    assert await processes.bury(database) == []  # after an outage nobody is buried at once
    assert await processes.bury(database, expired=True) == [ANNA]
    assert await processes.bury(database, expired=True) == []
    await processes.stop(database, BERT)
    assert await processes.live(database, "triggerer") == 0


async def test_a_failed_watcher_waits_longer_each_time(database: Database) -> None:
    await declare(database, watched("a"))
    waits = []
    for strike in range(10):
        [mine] = await claim(database, ANNA)
        assert mine.strikes == strike
        await watchers.fail(database, ANNA, mine.id, mine.term, {"message": "boom"})
        assert await claim(database, BERT) == []
        [row] = await _query(
            database,
            "update watcher set next_try_at = '-infinity' returning (select next_try_at - last_error_at from watcher)",
        )
        waits.append(round(row[0].total_seconds()))
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256]


async def test_what_outlived_its_back_off_is_forgiven(database: Database) -> None:
    await declare(database, watched("a", "v", "w"))
    await _query(database, "update watcher set strikes = 3, last_error = '{}'")
    v, w = await claim(database, ANNA)
    await watchers.observed(database, ANNA, [(v.id, v.term)])
    assert dict(await _query(database, "select id, strikes from watcher")) == {v.id: 3, w.id: 3}
    await write(database, ANNA, w, change("a"))
    assert dict(await _query(database, "select id, strikes from watcher")) == {v.id: 3, w.id: 3}
    await _query(
        database, "update watcher set claimed_at = claimed_at - interval '9 s'"
    )  # it outlived its back-off of 8 s
    await watchers.observed(database, ANNA, [(v.id, v.term)])
    assert dict(await _query(database, "select id, strikes from watcher")) == {v.id: 0, w.id: 3}
    await write(database, ANNA, w, change("a"))
    assert dict(await _query(database, "select id, strikes from watcher")) == {v.id: 0, w.id: 0}


async def test_the_share_counts_triggerers_and_what_is_free(database: Database) -> None:
    await declare(database, watched("a", "v", "w", "x"))
    for process in (ANNA, BERT, CARL):
        await processes.register(database, process, "triggerer", LEASE)
    for process in (ANNA, BERT):
        await processes.renew(database, process, LEASE, ready=True)
    share = await watchers.share(database, ANNA, take_over=False)
    assert (share.active, share.free, share.triggerers, share.fair) == (3, True, 2, 2)
    await claim(database, ANNA)
    assert not (await watchers.share(database, BERT, take_over=True)).free
    await run_out(database)
    assert not (await watchers.share(database, BERT, take_over=False)).free
    assert (await watchers.share(database, BERT, take_over=True)).free


async def test_what_is_no_longer_declared_is_to_be_stopped(database: Database) -> None:
    await declare(database, watched("a", "v", "w"), path="a.py")
    v, w = await claim(database, ANNA)
    await declare(database, watched("a", "w"), path="a.py")
    assert await kept(database, ANNA) == {v.id: 0, w.id: 1}, "generation 0: stop it"
    with pytest.raises(FencedError):
        await write(database, ANNA, v, change("a"))
    await watchers.release(database, ANNA, [(v.id, 1)])
    assert await claim(database, BERT) == []


async def test_registering_again_disturbs_no_owner(database: Database) -> None:
    await declare(database, watched("a", url="x"), path="a.py")
    [mine] = await claim(database, ANNA)
    await write(database, ANNA, mine, cursor=5)
    await declare(database, watched("a", url="x"), "b", path="a.py")
    assert await kept(database, ANNA) == {mine.id: mine.generation}
    assert [json.loads(c) for [c] in await _query(database, "select cursor from watcher")] == [5]


async def test_an_edited_watcher_starts_without_the_old_cursor(database: Database) -> None:
    await declare(database, watched("a", url="x"), path="a.py")
    [mine] = await claim(database, ANNA)
    await write(database, ANNA, mine, cursor=5)
    await declare(database, watched("a", url="y"), path="a.py")
    assert await kept(database, ANNA) == {mine.id: mine.generation + 1}
    await watchers.release(database, ANNA, [(mine.id, mine.term)])
    [new] = await claim(database, BERT)
    assert (new.cursor, new.kwargs["url"]) == (None, "y")


async def test_the_owner_before_an_edit_is_fenced(database: Database) -> None:
    """Until its next renewal it does not know of the edit. What its cursor means the new definition does not know.

    And an event stored without its cursor would be told again.
    """
    await declare(database, watched("a", url="x"), path="a.py")
    [old] = await claim(database, ANNA)
    await declare(database, watched("a", url="y"), path="a.py")
    with pytest.raises(FencedError, match="was edited"):
        await write(database, ANNA, old, change("a", "seen by the old one"), cursor={"of": "x"})
    assert await _query(database, "select id from event") == []
    await watchers.release(database, ANNA, [(old.id, old.term)])
    [new] = await claim(database, BERT)
    assert new.cursor is None
    await write(database, BERT, new, cursor={"of": "y"})
    assert [json.loads(c) for [c] in await _query(database, "select cursor from watcher where active")] == [{"of": "y"}]


async def test_registering_and_recording_do_not_wait_for_each_other_in_a_circle(database_url: str) -> None:
    """A recording watcher holds its row and wants the asset's; a registration takes them in the same order."""
    async with pool(database_url, "gated") as recording, pool(database_url, "registering") as registering:
        await declare(registering, watched("a", url="x"), dag("d", each("a")), path="a.py")
        [mine] = await claim(recording, ANNA)
        async with Gate.at(database_url, "watcher", "update", "after") as gate, asyncio.TaskGroup() as group:
            writing = group.create_task(write(recording, ANNA, mine, change("a")))
            await gate.reached()
            edit = declare(registering, watched("a", url="y"), dag("d", each("a")), path="a.py")
            editing = group.create_task(edit)
            await gate.waits("registering")
            await gate.open()
        assert editing.result()
        assert [r.status for r in writing.result()] == ["stored"]
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0


async def test_renewing_and_burying_do_not_wait_for_each_other_in_a_circle(database_url: str) -> None:
    """Both touch all watchers of one owner; they do so in the same order."""
    async with pool(database_url, size=6) as database:
        await declare(database, watched("a", *(f"w{i:03}" for i in range(300))))
        for _ in range(10):
            held = [(w.id, w.term) for w in await claim(database, ANNA)]
            assert len(held) == 300
            await together_all(
                *(watchers.observed(database, ANNA, some) for some in (held, held[::-1], held[150:] + held[:150])),
                processes.release(database, [ANNA]),
                watchers.release(database, ANNA, held[::-1]),
            )
    async with connected(database_url) as sql:
        assert await deadlocks(sql) == 0


async def test_a_hot_watcher_under_takeovers_loses_and_doubles_nothing(database: Database) -> None:
    """Owners are replaced again and again while they write; every stored number follows the stored cursor."""
    await declare(database, watched("a"), dag("d", each("a")))
    over = asyncio.Event()

    async def owner(me: uuid.UUID) -> None:
        while not over.is_set():
            for watcher in await claim(database, me, take_over=True):
                at = json.loads(watcher.cursor or "0")
                try:
                    while not over.is_set():
                        at += 1
                        await write(database, me, watcher, change("a", extra=str(at)), cursor=at)
                except FencedError:
                    continue

    async def taker() -> None:
        for _ in range(30):
            await run_out(database)
            await record(database, "a")
        over.set()

    await together_all(*(without_result(owner(uuid.UUID(int=i))) for i in range(1, 5)), without_result(taker()))
    rows = await _query(database, "select extra from event where extra::text <> '{}' order by seq")
    [last] = await _query(database, "select cursor from watcher")
    assert [int(r["extra"]) for r in rows] == list(range(1, len(rows) + 1))
    assert json.loads(last["cursor"]) == len(rows)
    await healthy(database)


async def _outcome(work: Any) -> Any:
    try:
        return await work
    except FencedError as error:
        return error


async def _query(database: Database, text: str, *args: object) -> list[Any]:
    async with database._acquire() as raw:
        return await raw.fetch(text, *args)
