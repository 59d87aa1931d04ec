"""`onceflow verify`: whether what is stored keeps the promise. Every check is one statement over whole tables.

Each statement sees one snapshot, and every transaction of ours leaves all of them without a row, so `verify` may run at
any time. What a check means is the first line of its file under `store/sql/verify/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onceflow.model.change import key_hash
from onceflow.model.clock import boot_seconds
from onceflow.queries.rows import Row, collect, plain, stream
from onceflow.store import statements
from onceflow.store.database import Database, Record

SHOWN = 100
"""Violations shown of each kind."""

JUDGED_HERE: Mapping[str, Callable[[Record], bool]] = {
    "event_of_other_key": lambda event: key_hash(event["key"]) == event["hash"],
}
"""Checks that need what PostgreSQL cannot compute: whether a row of the statement is as it should be."""


def checks() -> list[str]:
    """The kinds of violation, in order."""
    return [n.partition("/")[2] for n in statements.names() if n.startswith("verify/") and n != "verify/counts"]


async def verify(database: Database) -> dict[str, Any]:
    """Check everything: `ok`, the counts `events`, `deliveries`, `runs`, `by_disposition`, and the list `violations`.

    `seconds` says how long each check took.

    A violation has its `kind`, its `meaning`, and the ids it is about; at most SHOWN of a kind are listed.
    """
    [counted] = await database.fetch("verify/counts")
    counts = plain(counted)
    violations: list[Row] = []
    seconds: dict[str, float] = {}
    for kind in checks():
        began = boot_seconds()
        violations += [{"kind": kind, "meaning": _meaning(kind)} | row for row in await _found(database, kind)]
        seconds[kind] = round(boot_seconds() - began, 3)
    return {
        "ok": not violations,
        "events": counts["events"],
        "deliveries": counts["deliveries"],
        "runs": counts["runs"],
        "by_disposition": counts["by_disposition"] or {},
        "checks": len(seconds),
        "seconds": seconds,
        "violations": violations,
    }


async def _found(database: Database, kind: str) -> list[Row]:
    is_sound = JUDGED_HERE.get(kind)
    if is_sound is None:
        return await collect(stream(database, f"verify/{kind}", SHOWN))
    found: list[Row] = []
    async with database.cursor(f"verify/{kind}", prefetch=10_000) as records:
        async for record in records:
            if not is_sound(record):
                found.append(plain(record))
                if len(found) == SHOWN:
                    break
    return found


def _meaning(kind: str) -> str:
    first = statements.text(f"verify/{kind}").partition("\n")[0]
    return first.removeprefix("-- ").partition(" $1")[0]
