"""Events whose payload breaks their asset's schema: stored in their place, held, and let go on when they are mended."""

from __future__ import annotations

import asyncio
import threading
import uuid
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
    one_of,
    record,
    report,
    rows,
    together,
)

from onceflow.model.dagspec import AssetSpec, Policy
from onceflow.model.errors import ConflictError, InputError, NotFoundError
from onceflow.queries.why import why_event
from onceflow.store import assets, history
from onceflow.store.database import Database
from onceflow.store.quarantine import release

SCHEMA = {"type": "object", "required": ["total"], "properties": {"total": {"type": "integer", "minimum": 0}}}
GOOD, BAD = '{"total": 1}', '{"total": "many"}'
BY = {"kind": "cli", "user": "ada", "host": "h"}


async def agreed(database: Database, *dags: Any) -> None:
    """Asset "a" with a contract, and these DAGs, by default one that has a run of each event."""
    await declare(
        database, AssetSpec("a", schema=SCHEMA), "b", *(dags or (dag("d", each("a"), file="f.py"),)), path="f.py"
    )


async def consumed(database: Database) -> list[tuple[int, str]]:
    """What became of the events, in their order."""
    return [
        tuple(r) for r in await rows(database, "select event_id, disposition::text from delivery order by 1, dag_id")
    ]


async def test_a_bad_payload_is_acknowledged_and_held_and_blocks_nothing(database: Database) -> None:
    await agreed(database)
    answers = await record(database, change("a", "1", GOOD), change("a", "2", BAD), change("a", "3", GOOD))
    assert [a.status for a in answers] == ["stored"] * 3
    assert answers[1].flaw == "$.total: 'many' is not of type 'integer'" and answers[0].flaw is None
    await Scheduler(database).settle()
    assert await consumed(database) == [(1, "started"), (2, "held"), (3, "started")]
    told = await why_event(database, 2)
    assert "quarantined at 2" in told["because"][1] and "'many' is not of type 'integer'" in told["because"][1]
    assert "held in quarantine" in told["deliveries"][0]["because"]
    await healthy(database)


async def test_a_contract_that_takes_long_to_judge_holds_nobody_else_up(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease has to be renewed meanwhile, by the same loop."""
    await agreed(database)
    turned = threading.Event()
    monkeypatch.setattr(assets, "flaw", lambda *_: None if turned.wait(5) else "the loop stood still")
    asyncio.get_running_loop().call_later(0.01, turned.set)
    [stored] = await record(database, change("a", extra=GOOD))
    assert stored.flaw is None


async def test_a_person_mends_it_and_it_keeps_its_identity_and_its_place(database: Database) -> None:
    await agreed(database)
    await record(database, change("a", "1", BAD), change("a", "2", GOOD))
    with pytest.raises(InputError, match=r"breaks the schema, too: \$.total: -1 is less than the minimum"):
        await release(database, 1, extra={"total": -1}, by=BY)
    await release(database, 1, extra={"total": 7}, by=BY, reason="typo upstream")
    await Scheduler(database).settle()
    assert await consumed(database) == [(1, "started"), (2, "started")]
    assert await rows(database, "select seq, key, extra::text from event order by id") == [
        (1, "1", '{"total":7}'),
        (2, "2", GOOD),
    ]
    starts = await rows(database, "select start_event from run order by ordinal")
    assert [r[0] for r in starts] == [1, 2]
    text = "\n".join((await why_event(database, 1))["because"])
    assert "with another payload, by ada on h by command (typo upstream)" in text
    assert [a.status for a in await record(database, change("a", "1", GOOD))] == ["duplicate"]
    with pytest.raises(ConflictError, match="event 1 is not quarantined"):
        await release(database, 1, as_it_is=True, by=BY)
    with pytest.raises(NotFoundError):
        await release(database, 9, as_it_is=True, by=BY)
    await healthy(database)


async def test_let_go_as_it_is(database: Database) -> None:
    await agreed(database)
    await record(database, change("a", "1", BAD))
    await release(database, 1, as_it_is=True, by=BY)
    await Scheduler(database).settle()
    assert await consumed(database) == [(1, "started")]
    assert "as it came, by ada" in "\n".join((await why_event(database, 1))["because"])
    await healthy(database)


async def test_a_valid_sighting_of_its_key_releases_it(database: Database) -> None:
    await agreed(database)
    bad = change("a", "1", BAD)
    await record(database, bad, change("a", "2", GOOD))
    assert [a.status for a in await record(database, bad)] == ["repeated"]
    assert [a.status for a in await record(database, change("a", "1", BAD))] == ["duplicate"]
    assert await consumed(database) == [(1, "held"), (2, "pending")]
    assert [a.status for a in await record(database, change("a", "1", GOOD))] == ["released"]
    assert [a.status for a in await record(database, change("a", "1", '{"total": 5}'))] == ["duplicate"]
    await Scheduler(database).settle()
    assert await consumed(database) == [(1, "started"), (2, "started")]
    [(extra,)] = await rows(database, "select extra::text from event where id = 1")
    assert extra == GOOD
    differs = await rows(database, "select differs from witness order by seen_at")
    assert [r[0] for r in differs] == [False, True, True]
    await healthy(database)


async def test_bad_and_good_in_one_batch(database: Database) -> None:
    await agreed(database)
    answers = await record(database, change("a", "1", BAD), change("a", "1", GOOD), change("a", "1", BAD))
    assert [a.status for a in answers] == ["stored", "released", "duplicate"]
    await Scheduler(database).settle()
    assert await consumed(database) == [(1, "started")]
    await healthy(database)


async def test_valid_sightings_at_once_release_it_once(database: Database) -> None:
    await agreed(database)
    await record(database, change("a", "1", BAD))
    answers = await asyncio.gather(*(record(database, change("a", "1", GOOD)) for _ in range(8)))
    assert sorted(a.status for [a] in answers) == ["duplicate"] * 7 + ["released"]
    await Scheduler(database).settle()
    assert await consumed(database) == [(1, "started")]
    await healthy(database)


async def test_a_quarantined_event_completes_no_condition(database: Database) -> None:
    await agreed(database, dag("d", together("a", "b"), file="f.py"))
    await record(database, change("a", "1", BAD), change("b", "1"))
    await Scheduler(database).settle()
    assert await consumed(database) == [(1, "held"), (2, "pending")]
    await record(database, change("a", "1", GOOD))
    await Scheduler(database).settle()
    assert await consumed(database) == [(1, "started"), (2, "joined")] or await consumed(database) == [
        (1, "joined"),
        (2, "started"),
    ]
    await healthy(database)


async def test_an_edit_of_the_consumer_releases_nothing(database: Database) -> None:
    await agreed(database)
    await record(database, change("a", "1", BAD))
    await agreed(database, dag("d", each("a"), "edited", file="f.py"))
    await Scheduler(database).settle()
    assert await consumed(database) == [(1, "held")]
    await healthy(database)


@pytest.mark.parametrize("policy", ["each", "all"])
async def test_history_holds_what_is_quarantined(database: Database, policy: Policy) -> None:
    """A consumer that comes later gets stored events as the others did: the bad one waits until somebody mends it."""
    await declare(database, AssetSpec("a", schema=SCHEMA), path="assets.py")
    bad = [change("a", key, BAD) for key in "23"]
    await record(database, change("a", "1", GOOD), *bad)
    await declare(database, AssetSpec("a", schema=SCHEMA), dag("d", one_of("a", policy=policy), catchup=True))
    scheduler = Scheduler(database)
    while await history.catch_up(database, 1, 1, 1) is not None:
        await scheduler.settle()
    assert await consumed(database) == [(1, "started"), (2, "held"), (3, "held")]
    await healthy(database)
    await release(database, 2, as_it_is=True, by=BY)
    await scheduler.settle()
    assert await consumed(database) == [(1, "started"), (2, "started"), (3, "held")]
    await healthy(database)


async def test_a_task_whose_outlet_breaks_the_contract_succeeds(database: Database) -> None:
    """The work was done and the change happened; what it said of it is what is wrong."""
    await agreed(database, dag("d", each("a"), file="f.py"), dag("producer", each("b"), file="f.py"))
    await record(database, "b")
    scheduler, worker = Scheduler(database), uuid.uuid4()
    await scheduler.settle()
    [task] = (await claim_tasks(database, worker)).values()
    known = await assets.find(database, ["a"])
    told = await assets.by_rules([change("a", "x", BAD), change("a", "y", GOOD)], known)
    assert await finish(database, worker, report(task, changes=told), assets={"a": known["a"].id}) == ["finished"]
    await scheduler.settle()
    assert await consumed(database) == [(1, "started"), (2, "held"), (3, "started")]
    await healthy(database)


async def test_a_schema_that_cannot_be_applied_quarantines(database: Database) -> None:
    """A poison schema stops neither the source nor the loop: it is named, and what it judged is held."""
    endless = {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}}
    await declare(database, AssetSpec("a", schema=endless), dag("d", each("a"), file="f.py"), path="f.py")
    [answer] = await record(database, change("a", "1", GOOD))
    assert answer.flaw is not None and answer.flaw.startswith("the schema cannot be applied: RecursionError")
    await healthy(database)


@pytest.mark.parametrize(
    "extra",
    ['{"\\u0000": 1}', '{"\\ud800": 1}', '{"total": "\\u0000\\ud800"}', '{"' + "x" * 9000 + '": 1}', "[[[]]]", "null"],
)
async def test_any_payload_can_be_quarantined(database: Database, extra: str) -> None:
    closed = SCHEMA | {"additionalProperties": {"type": "string"}}
    await declare(database, AssetSpec("a", schema=closed), dag("d", each("a"), file="f.py"), path="f.py")
    [answer] = await record(database, change("a", "1", extra))
    assert answer.status == "stored" and answer.flaw
    assert await consumed(database) == [(1, "held")]
    await healthy(database)
