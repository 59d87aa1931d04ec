"""What a chaos run counts in the database."""

from __future__ import annotations

import uuid
from datetime import timedelta

from ground import change, declare, rows

from onceflow.model.clock import utcnow
from onceflow.store import events
from onceflow.store.database import Database

ONE, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


async def test_missing_and_doubled_numbers_are_counted(database: Database) -> None:
    """By what watchers told; what a person emits is no matter of it."""
    source = {"kind": "watcher"}
    await declare(database, "a", "b")
    for asset, number in [("a", 1), ("a", 3), ("a", 3), ("b", 2)]:
        await events.record(database, [change(asset, extra=f'{{"chaos_number": {number}}}')], source)
    await events.record(database, [change("a", extra='{"chaos_number": 9}')], {"kind": "cli"})
    await events.record(database, [change("a", extra="[]"), change("a", extra='{"chaos_number": "x"}')], source)
    row = await database.fetchrow("chaos/numbers")
    assert row is not None and dict(row) == {"told": 3, "missing": 2, "doubled": 1}


async def test_a_watcher_is_looked_after_again_once_somebody_else_has_looked(database: Database) -> None:
    await rows(
        database,
        "insert into watcher (id, definition, classpath, kwargs, mode, active, owner, last_observation) "
        "overriding system value values (1, 'a', 'a.B', '{}', 'single', true, $1, clock_timestamp())",
        ONE,
    )
    assert [r["id"] for r in await database.fetch("chaos/owned", ONE)] == [1]
    assert await database.fetch("chaos/owned", OTHER) == []
    assert len(await database.fetch("chaos/owned", None)) == 1
    before, after = utcnow() - timedelta(hours=1), utcnow() + timedelta(hours=1)
    assert await database.fetch("chaos/observed_again", [1], ONE, before) == []
    assert len(await database.fetch("chaos/observed_again", [1], OTHER, before)) == 1
    assert await database.fetch("chaos/observed_again", [1], OTHER, after) == []
    assert len(await database.fetch("chaos/observed_again", [1], None, before)) == 1
