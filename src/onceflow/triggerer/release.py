"""Gives up watchers of this triggerer, to be claimed by anybody."""

from __future__ import annotations

from collections.abc import Sequence

from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.role import Role
from onceflow.store import watchers


async def release(role: Role, held: Sequence[tuple[int, int]]) -> None:
    """Give up these (watcher, term), whose triggers are stopped."""
    crash_point("triggerer.release.before")
    await watchers.release(role.database, role.id, held)
    crash_point("triggerer.release.after_commit")
