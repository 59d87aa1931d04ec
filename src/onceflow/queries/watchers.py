"""Watchers, as people see them: who watches what, and whether anything comes of it."""

from __future__ import annotations

from contextlib import aclosing

from onceflow.model.times import from_rfc3339, to_rfc3339
from onceflow.model.watch_health import Seen, judge
from onceflow.queries.rows import Row, Rows, stream
from onceflow.store.database import Database

TIMES = frozenset({"since", "last_observation", "next_try_at", "made_at"})
JUDGED = ("held", "waiting", "observed", "quiet", "unowned_for", "canary_waits")


async def stream_watchers(
    database: Database, asset: str | None = None, *, active: bool | None = True, limit: int | None = None
) -> Rows:
    """Watchers by asset and name, one row each, however many assets it feeds; `asset` and `watcher` name the first.

    `lag`: seconds since the last observation, or since the claim if there is none yet. `state`, `health` and `reason`
    are explained in `model/watch_health.py`. `canary`: the last synthetic change, with its `delay` in seconds from end
    to end and the parts of it. `watched_by`: in mode all, every triggerer that runs it.
    """
    async with aclosing(stream(database, "watchers/list", asset, active, limit)) as rows:
        async for row in rows:
            yield _judged(_with_times(row))


def _with_times(row: Row) -> Row:
    """Times inside of objects, which the database wrote, in the one form that all times have."""
    for part in [*row["watched_by"], *([row["canary"]] if row["canary"] else [])]:
        for name in TIMES & part.keys():
            part[name] = part[name] and to_rfc3339(from_rfc3339(part[name]))
    return row


def _judged(row: Row) -> Row:
    error = row["last_error"]
    found = judge(
        Seen(
            active=row["active"],
            strikes=row["strikes"],
            silent_after=row["silent_after"],
            storm=row["storm"],
            flaw=row["flaw"],
            error=str(error.get("message", "")) if isinstance(error, dict) else "",
            **{name: row.pop(name) for name in JUDGED},
        )
    )
    return row | {"state": found.state, "health": found.health, "reason": found.reason}
