"""Payloads that do not give the key that is declared: stored in quarantine, known by the payload, named when mended."""

from __future__ import annotations

import json
import sys
import uuid
from dataclasses import replace
from typing import Any

import pytest
from ground import Scheduler, change, dag, declare, each, healthy, one_of, record, role, rows, together_all

from onceflow.model.change import Change, payload_hash
from onceflow.model.dagspec import AssetSpec, WatcherSpec
from onceflow.model.errors import InputError, NotFoundError
from onceflow.model.key import Key
from onceflow.queries.rows import Row, collect
from onceflow.queries.watchers import stream_watchers
from onceflow.queries.why import why_event
from onceflow.sdk import keys
from onceflow.sdk.trigger import TriggerEvent
from onceflow.store import history, interventions, processes, pruning, watchers
from onceflow.store.database import Database
from onceflow.store.interventions import Scope
from onceflow.store.quarantine import Released, recheck, release
from onceflow.store.watchers import OwnedWatcher
from onceflow.triggerer import guest
from onceflow.triggerer.deliver import Batch, deliver

WORKER = uuid.UUID(int=1)
BY_ID = Key(("order.id",))
BY = {"kind": "cli", "user": "ada", "host": "h"}
POLL = WatcherSpec("poll", "triggers.Poll", {}, where="f.py:1")
WRONG: dict[str, Any] = {"ordr": {"id": 2}}


def order(number: Any) -> dict[str, Any]:
    return {"order": {"id": number}}


def orders(key: Key | None = BY_ID, **more: Any) -> AssetSpec:
    return AssetSpec("orders", where="f.py:1", key=key, watchers=(POLL,), **more)


async def shop(database: Database, *assets: AssetSpec, **watcher: Any) -> OwnedWatcher:
    """Orders and a consumer of each; the watcher that tells of them, claimed."""
    found = tuple(replace(a, watchers=tuple(replace(w, **watcher) for w in a.watchers)) for a in assets or (orders(),))
    await declare(database, *found, dag("d", each(*(a.name for a in found)), file="f.py"), path="f.py")
    if watcher.get("mode") == "all":
        await processes.register(database, WORKER, "triggerer", 60.0)
        [owned] = await watchers.join(database, WORKER, 10)
    else:
        [owned] = await watchers.claim(database, WORKER, 10, take_over=False)
    return owned


class Told:
    """What a watcher tells, batch by batch."""

    def __init__(self, database: Database, owned: OwnedWatcher) -> None:
        self.role = replace(role(database, "triggerer"), id=WORKER)
        self.owned, self.start, self.number = owned, uuid.uuid4(), 0

    async def __call__(self, *payloads: Any, again: bool = False, **of_event: Any) -> None:
        """Each payload is an event; `again`: as the batch before, sent once more."""
        self.number += not again
        events = [{"extra": json.dumps(p), "key": None, **of_event} for p in payloads]
        batch = Batch(self.number, events, None if self.owned.mode == "all" else str(self.number))
        await deliver(self.role, self.owned, self.start, batch, self.number, self.owned.routes)


async def known(database: Database) -> list[tuple[Any, ...]]:
    """Events as (id, key, what became of them)."""
    return await rows(
        database,
        "select e.id, e.key, y.disposition::text from event e left join delivery y on y.event_id = e.id order by 1",
    )


async def watcher_of(database: Database) -> Row:
    [row] = await collect(stream_watchers(database))
    return row


async def test_a_payload_without_the_key_is_in_quarantine_and_the_watcher_goes_on(database: Database) -> None:
    """Its neighbours in the batch and the other assets of the watcher get their events, and the cursor moves."""
    tell = Told(database, await shop(database, orders(), AssetSpec("audit", where="f.py:2", watchers=(POLL,))))
    await tell(order(1), WRONG, order(3))
    await Scheduler(database).settle()
    found = await rows(
        database,
        "select a.name, e.key, y.disposition::text from event e join asset a on a.id = e.asset_id "
        "join delivery y on y.event_id = e.id order by a.name, e.seq",
    )
    assert found == [("audit", None, "started")] * 3 + [
        ("orders", "1", "started"),
        ("orders", None, "held"),
        ("orders", "3", "started"),
    ]
    assert await rows(database, "select cursor::text, flawed from watcher") == [("1", 1)]
    [(event,)] = await rows(database, "select event_id from quarantine")
    told = await why_event(database, event)
    assert "no key, known by its payload until it is mended" in told["because"][0]
    assert (
        "as its payload gives no key: asset 'orders' with key=order.id: the payload has no field 'order.id'"
        in told["because"][1]
    )
    assert "held in quarantine" in told["deliveries"][0]["because"]
    await healthy(database)


async def test_the_watcher_is_red_while_what_it_told_last_is_in_quarantine(database: Database) -> None:
    await processes.register(database, WORKER, "triggerer", 60.0)
    await processes.renew(database, WORKER, 60.0, ready=True)
    tell = Told(database, await shop(database))
    await tell(WRONG)
    told = await watcher_of(database)
    assert (told["health"], told["state"], told["flawed"]) == ("red", "flawed", 1)
    assert "no field 'order.id'" in told["reason"]
    await tell(order(1))
    assert (await watcher_of(database))["health"] == "healthy"
    await tell({"ordr": 3})
    assert (await watcher_of(database))["health"] == "red"
    for (event,) in await rows(database, "select event_id from quarantine"):
        await release(database, event, extra=order(event), by=BY)
    assert (await watcher_of(database))["health"] == "healthy"


async def test_equal_payloads_without_a_key_are_one_event(database: Database) -> None:
    """A source that tells of everything at every poll makes no flood; nor does a batch that is sent again."""
    tell = Told(database, await shop(database))
    await tell(WRONG, {"a": 1, "b": 2})
    await tell(WRONG, {"a": 1, "b": 2}, again=True)
    for _ in range(3):
        await tell(WRONG, {"b": 2, "a": 1})
    assert await known(database) == [(1, None, "held"), (2, None, "held")]
    assert await rows(database, "select event_id, count(*) from witness group by 1 order by 1") == [(1, 3), (2, 3)]
    assert await rows(database, "select flawed from watcher") == [(8,)]
    await healthy(database)


async def test_several_triggerers_that_tell_of_it_make_one_event(database: Database) -> None:
    tell = Told(database, await shop(database, mode="all"))
    await tell(WRONG)
    await tell(WRONG)
    assert await known(database) == [(1, None, "held")]
    assert (await watcher_of(database))["flawed"] == 2
    await tell(order(1))
    assert await rows(database, "select last_flaw from watcher") == [(None,)]
    await healthy(database)


async def test_what_the_guest_found_wrong_is_the_flaw(database: Database) -> None:
    """A key function that failed for one of two assets, and a payload that is too large."""
    by_code = Key(function="f.by_id", file="f.py")
    tell = Told(database, await shop(database, orders(by_code), AssetSpec("audit", where="f.py:2", watchers=(POLL,))))
    ids = dict(await rows(database, "select name, id from asset"))
    await tell(WRONG, flaws={str(ids["orders"]): "the key function failed: KeyError: 'id'"})
    await tell({"too_large": {"bytes": 300_000}}, flaw="the extra has 300000 bytes")
    found = await rows(
        database,
        "select a.name, q.flaw, q.stand_in is not null from event e join asset a on a.id = e.asset_id "
        "left join quarantine q on q.event_id = e.id order by 1, e.seq",
    )
    assert found == [
        ("audit", None, False),
        ("audit", "the extra has 300000 bytes", False),
        ("orders", "the key function failed: KeyError: 'id'", True),
    ] + [("orders", "the extra has 300000 bytes", True)] * (len(found) - 3)
    await healthy(database)


async def test_a_caller_is_told_as_before(database: Database) -> None:
    await shop(database)
    with pytest.raises(InputError, match="no field"):
        await record(database, change("orders", None, json.dumps(WRONG)))
    assert await known(database) == []


# Mending -------------------------------------------------------------------------------------------------------------


async def test_mended_it_gets_its_key_and_keeps_its_place(database: Database) -> None:
    tell = Told(database, await shop(database))
    await tell(WRONG, order(3))
    with pytest.raises(InputError, match=r"no field 'order.id'") as refused:
        await release(database, 1, extra={"order": {}}, by=BY)
    assert "--key" in refused.value.remedy
    with pytest.raises(InputError, match=r"no field 'order.id'"):
        await release(database, 1, as_it_is=True, by=BY)
    assert await release(database, 1, extra=order(2), by=BY, reason="typo") == Released("2")
    await Scheduler(database).settle()
    assert await known(database) == [(1, "2", "started"), (2, "3", "started")]
    assert await rows(database, "select start_event from run order by ordinal") == [(1,), (2,)]
    await tell(order(2), WRONG)  # the same change, told rightly, and told wrongly once more
    assert await rows(database, "select event_id, differs from witness order by 2") == [(1, False), (1, True)]
    assert len(await known(database)) == 2
    told = "\n".join((await why_event(database, 1))["because"])
    assert "key 2" in told and "released at" in told and "by ada on h by command (typo)" in told
    await healthy(database)


async def test_mended_by_its_key_or_by_another_declaration(database: Database) -> None:
    tell = Told(database, await shop(database))
    await tell(WRONG, {"number": 5})
    assert await release(database, 1, as_it_is=True, key="2", by=BY) == Released("2")
    await declare(database, orders(Key(("number",))), dag("d", each("orders"), file="f.py"), path="f.py")
    assert await release(database, 2, as_it_is=True, by=BY) == Released("5")
    assert await known(database) == [(1, "2", "pending"), (2, "5", "pending")]
    await healthy(database)


async def test_the_watcher_s_own_key_is_the_one_that_counts(database: Database) -> None:
    tell = Told(database, await shop(database, key=Key(("sha",))))
    await tell(order(1))
    assert await release(database, 1, extra={"sha": "abc"} | order(1), by=BY) == Released("abc")
    await healthy(database)


async def test_when_the_declaration_is_mended_all_that_is_right_goes_on(database: Database) -> None:
    """In their order; what tells of one change twice is one event, and what is still wrong stays."""
    schema = {"properties": {"total": {"type": "integer"}}}
    tell = Told(database, await shop(database, orders(Key(("order.di",)))))
    await tell(order(1), order(2), order(2) | {"again": True}, WRONG, order(5) | {"total": "many"})
    assert {d for _, _, d in await known(database)} == {"held"}
    mended = orders(schema=schema)
    await declare(database, mended, dag("d", each("orders"), file="f.py"), path="f.py")
    done = await recheck(database, "orders", by=BY, reason="typo")
    assert done.released == {1: Released("1"), 2: Released("2"), 3: Released("2", 2)}
    assert list(done.left) == [4, 5] and "no field" in done.left[4] and "'many' is not" in done.left[5]
    await Scheduler(database).settle()
    assert [d for _, _, d in await known(database)] == ["started", "started", "discarded", "held", "held"]
    assert (await recheck(database, "orders", by=BY)).released == {}
    with pytest.raises(NotFoundError):
        await recheck(database, "order", by=BY)
    await healthy(database)


async def test_mended_while_its_key_is_told_it_is_one_event(database: Database) -> None:
    tell = Told(database, await shop(database))
    await tell(*({"wrong": n} for n in range(6)))
    told = await together_all(
        *(release(database, n + 1, extra=order(n % 3), by=BY) for n in range(6)),
        *(record(database, change("orders", None, json.dumps(order(n)))) for n in range(3)),
    )
    assert len(told) == 9
    await Scheduler(database).settle()
    started = [(k, d) for _, k, d in await known(database) if d == "started"]
    assert sorted(started) == [("0", "started"), ("1", "started"), ("2", "started")]
    assert (await healthy(database))["runs"] == 3


async def test_what_nobody_wants_is_discarded_and_goes_when_it_is_old(database: Database) -> None:
    tell = Told(database, await shop(database, orders(retention=1.0)))
    await tell(WRONG)
    await rows(database, "update event set created_at = created_at - interval '1 day'")
    assert await pruning.events(database, 1, 0, 1.0, 10) == (None, 0)
    assert (await rows(database, "select last_flaw is not null from watcher")) == [(True,)]
    await interventions.discard(database, Scope(events=[1]), by=BY)
    assert (await watcher_of(database))["flaw"] is None
    assert await pruning.events(database, 1, 0, 1.0, 10) == (None, 1)
    await healthy(database)


@pytest.mark.parametrize("first", [True, False])
async def test_mended_it_turns_out_to_be_a_change_that_is_known(database: Database, first: bool) -> None:
    """Nothing is doubled: it is discarded, and says which event it is; late consumers get it the same way."""
    tell = Told(database, await shop(database))
    await tell(*([WRONG, order(2)] if first else [order(2), WRONG]))
    bad, good = (1, 2) if first else (2, 1)
    assert await release(database, bad, extra=order(2), by=BY, reason="typo") == Released("2", good)
    await Scheduler(database).settle()
    assert sorted(await known(database)) == sorted([(bad, None, "discarded"), (good, "2", "started")])
    [delivery] = (await why_event(database, bad))["deliveries"]
    assert f"the same change as event {good}" in delivery["because"]
    told = (await why_event(database, bad))["because"]
    assert any(f"found to be the same change as event {good}" in line and "(typo)" in line for line in told)
    await declare(database, orders(), dag("late", one_of("orders", policy="each"), catchup=True))
    [(late,)] = await rows(database, "select id from dag where dag_id = 'late'")
    while await history.catch_up(database, 1, late, 1) is not None:
        await Scheduler(database).settle()
    assert await rows(database, "select count(*) from run") == [(2,)]
    await healthy(database)


@pytest.mark.parametrize("sound", [True, False])
async def test_mended_it_releases_the_event_of_its_key_that_is_in_quarantine_itself(
    database: Database, sound: bool
) -> None:
    schema = {"properties": {"total": {"type": "integer"}}}
    tell = Told(database, await shop(database, orders(schema=schema)))
    await tell(order(2) | {"total": "many"}, {"total": 1 if sound else "many"})
    if sound:
        assert await release(database, 2, extra=order(2) | {"total": 1}, by=BY) == Released("2", 1)
    else:
        assert await release(database, 2, as_it_is=True, key="2", by=BY) == Released("2", 1)
    await Scheduler(database).settle()
    assert await known(database) == [(1, "2", "started" if sound else "held"), (2, None, "discarded")]
    await healthy(database)


async def test_an_event_that_has_a_key_keeps_it(database: Database) -> None:
    schema = {"properties": {"total": {"type": "integer"}}}
    tell = Told(database, await shop(database, orders(schema=schema)))
    await tell(order(2) | {"total": "many"})
    for wrong in (order(3), order(None), {}):
        with pytest.raises(InputError, match=r"key '2', and this payload is that of '3'|no field|identifies nothing"):
            await release(database, 1, extra=wrong | {"total": 1}, by=BY)
    assert await release(database, 1, extra=order("2") | {"total": 1}, by=BY) == Released("2")
    await record(database, change("orders", "own", '{"total": "many", "order": {"id": 7}}'))
    assert await release(database, 2, extra=order(8), by=BY) == Released("own")
    await record(database, change("orders", "bare", '{"total": "many"}'))
    with pytest.raises(InputError, match="say that it is the same: --key bare"):
        await release(database, 3, extra=order(9), by=BY)
    assert await release(database, 3, extra=order(9), key="bare", by=BY) == Released("bare")
    await healthy(database)


async def test_both_identities_outlive_a_mended_event_as_the_asset_s_rules_say(database: Database) -> None:
    tell = Told(database, await shop(database, orders(retention=1.0, protection=1.0)))
    await tell(WRONG)
    await release(database, 1, extra=order(2), by=BY)
    await rows(
        database, "update delivery set disposition = 'filtered', reason = 'x', decided_at = now(), judged = true"
    )
    await rows(database, "update event set created_at = created_at - interval '1 day'")
    assert await pruning.events(database, 1, 0, 1.0, 10) == (None, 1)
    assert await rows(database, "select count(*) from change_key") == [(2,)]
    await healthy(database)
    assert await pruning.keys(database, 10) == 2
    assert await rows(database, "select count(*) from change_key") == [(0,)]
    await healthy(database)


async def test_an_event_that_needs_no_key_gets_none(database: Database) -> None:
    schema = {"properties": {"total": {"type": "integer"}}}
    tell = Told(database, await shop(database, orders(None, schema=schema)))
    await tell({"total": "many"})
    with pytest.raises(InputError, match="needs none"):
        await release(database, 1, extra={"total": 1}, key="k", by=BY)
    assert await release(database, 1, extra={"total": 1}, by=BY) == Released(None)
    await healthy(database)


def test_what_a_trigger_yields_is_isolated_where_it_cannot_be_stored() -> None:
    """The neighbours in a list stay as they are; what no trigger may yield is the trigger's failure as ever."""

    def by_id(payload: Any) -> str:
        return keys.call(lambda p: sys.exit(3) if p["id"] == 3 else p["id"], payload, "asset 'orders'")

    yielded = [TriggerEvent({"id": n}) for n in (1, 3)] + [TriggerEvent({}), TriggerEvent({"id": 2}, key="")]
    told = guest.batch(yielded, [guest.Keyed("7", None, by_id)])["events"]
    assert [e.get("keys") for e in told] == [{"7": "1"}, {}, {}, None]
    assert "SystemExit: 3" in told[1]["flaws"]["7"] and "KeyError: 'id'" in told[2]["flaws"]["7"]
    assert told[3] | {"flaw": ""} == {"extra": '{"id":2}', "key": None, "keyless": True, "flaw": ""}
    [large, whole] = guest.batch([TriggerEvent(["x" * 300_000], key="k"), TriggerEvent({}, key="l")])["events"]
    assert large["key"] == "k" and "300004 bytes of JSON, the limit is 262144" in large["flaw"]
    assert json.loads(large["extra"])["too_large"].keys() == {"bytes", "blake2b", "begins"}
    assert whole == {"extra": "{}", "key": "l"}
    for wrong in (TriggerEvent(object()), TriggerEvent({}, key=7), "text"):  # type: ignore[arg-type]
        with pytest.raises(InputError):
            guest.batch(wrong)


async def test_a_payload_that_is_too_large_is_everybody_s(database: Database) -> None:
    """Whose it is would be in it: it is stored for each asset of the watcher, and no cursor stands still for it."""
    eu = replace(POLL, match=["==", "region", "eu"])
    tell = Told(database, await shop(database, orders(None), AssetSpec("eu", where="f.py:2", watchers=(eu,))))
    await tell({"too_large": {"bytes": 300_000}}, flaw="the extra has 300000 bytes", key="k")
    assert await known(database) == [(1, "k", "held"), (2, "k", "held")]
    assert await release(database, 1, extra={"region": "us"}, by=BY) == Released("k")
    await healthy(database)


def test_the_payload_s_hash_knows_no_order_of_names_and_equals_no_key() -> None:
    one, other = '{"a": 1, "b": {"c": 2, "d": 3}}', '{"b":{"d":3,"c":2},"a":1}'
    assert payload_hash(one) == payload_hash(other) != payload_hash('{"a": 1}')
    keyless = Change("a", one, None, uuid.uuid4(), keyless=True)
    assert keyless.hash == payload_hash(one) != Change("a", one, one, uuid.uuid4()).hash
