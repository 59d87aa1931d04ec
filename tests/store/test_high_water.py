"""A high-water mark: the identities of an ordered source's pruned changes are one row for each of its partitions."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from ground import SOURCE, change, dag, declare, each, healthy, record, rows

from onceflow.model.change import Change
from onceflow.model.dagspec import AssetSpec, WatcherSpec
from onceflow.model.errors import DagError, InputError
from onceflow.model.message import MessageId
from onceflow.store import events, pruning, watchers
from onceflow.store.database import Database
from onceflow.store.events import Ownership
from onceflow.store.watchers import OwnedWatcher

WORKER = uuid.UUID(int=1)


def readings(where: str = "readings.py", **rules: Any) -> AssetSpec:
    watcher = WatcherSpec("topic", "triggers.Topic", {}, where=f"{where}:2")
    return AssetSpec("readings", where=f"{where}:1", watchers=(watcher,), **{"high_water": True} | rules)


def message(offset: Any, partition: int = 0, epoch: int = 1, **more: Any) -> Change:
    told = MessageId(f"kafka://prod/readings/{partition}", offset, epoch)
    return Change("readings", "{}", more.get("key"), uuid.uuid4(), told)


async def watch(database: Database) -> OwnedWatcher:
    [owned] = await watchers.claim(database, WORKER, 10, take_over=False)
    return owned


async def seen(database: Database, watcher: OwnedWatcher, *changes: Change) -> list[str]:
    own = Ownership(watcher.id, WORKER, watcher.term, watcher.routes.number)
    return [r.status for r in await events.record_if_owner(database, own, changes, SOURCE)]


async def prune(database: Database) -> int:
    [(asset,)] = await rows(database, "select id from asset")
    async with database._acquire() as raw:
        await raw.execute("update event set created_at = created_at - interval '2 days'")
    return (await pruning.events(database, asset, 0, 86_400.0, 100))[1]


async def test_what_is_not_above_the_mark_is_known(database: Database) -> None:
    await declare(database, readings())
    topic = await watch(database)
    assert await seen(database, topic, *(message(n) for n in range(10)), message(3, partition=1)) == ["stored"] * 11
    assert await prune(database) == 11
    assert await rows(database, "select count(*) from change_key") == [(0,)]
    assert await rows(database, "select source, mark from high_water order by 1") == [
        ("kafka://prod/readings/0", 9),
        ("kafka://prod/readings/1", 3),
    ]
    await healthy(database)
    again = [message(n) for n in (0, 9, 10, 9, 10)] + [message(3, partition=1), message(4, partition=1)]
    assert await seen(database, topic, *again) == [
        *("duplicate", "duplicate", "stored", "duplicate", "duplicate", "duplicate", "stored"),
    ]
    assert await seen(database, topic, message(0, epoch=2)) == ["stored"]  # the topic was made anew
    await healthy(database)
    assert await prune(database) == 3
    assert await rows(database, "select count(*), max(mark) from high_water") == [(3, 10)]
    await healthy(database)


async def test_a_mark_outlives_its_rule(database: Database) -> None:
    """Another protection by now: what the mark stands for is still known, and message ids may be texts."""
    await declare(database, readings())
    topic = await watch(database)
    await seen(database, topic, message(7))
    await prune(database)
    await declare(database, readings(high_water=False))
    told = await seen(database, topic, message(7), message("7a"), message(8), message(10**30))
    assert told == ["duplicate", "stored", "stored", "stored"]
    await healthy(database)


async def test_no_other_entrance(database: Database) -> None:
    await declare(database, readings())
    topic = await watch(database)
    with pytest.raises(InputError, match="no other entrance"):
        await record(database, change("readings", "k"))
    for wrong in (change("readings"), message("7"), message(2**63), message(1, key="k")):
        with pytest.raises(InputError, match="no MessageId with a whole number, or a key"):
            await seen(database, topic, wrong)
    assert (await healthy(database))["events"] == 0


@pytest.mark.parametrize("mark_first", [True, False])
async def test_another_file_with_an_entrance_is_refused(database: Database, mark_first: bool) -> None:
    files = [(readings(), "readings.py"), (AssetSpec("readings", where="uses.py:1", outlet=True), "uses.py")]
    (first, path), (second, other) = files if mark_first else files[::-1]
    await declare(database, first, path=path)
    with pytest.raises(DagError, match=f"high-water mark in one file, and here or in {path}"):
        await declare(database, second, path=other)


async def test_another_file_may_consume(database: Database) -> None:
    await declare(database, readings(), path="readings.py")
    await declare(database, "readings", dag("d", each("readings")), path="d.py")
    assert await seen(database, await watch(database), message(1)) == ["stored"]
    assert (await healthy(database))["deliveries"] == 1


async def test_a_mark_may_be_any_id_that_was_taken_before(database: Database) -> None:
    await declare(database, readings(high_water=False))
    assert await seen(database, await watch(database), message(2**70)) == ["stored"]
    await declare(database, readings())
    assert await prune(database) == 1
    assert await rows(database, "select mark from high_water") == [(2**70,)]
    await healthy(database)
