"""Processes and their leases. A process's identity is a fresh UUID, never a host name; the database's clock judges."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from importlib.metadata import version
from uuid import UUID

from onceflow.store.database import Database


async def register(database: Database, process: UUID, kind: str, lease_seconds: float) -> None:
    await database.execute(
        "processes/register",
        process,
        kind,
        socket.gethostname(),
        os.getpid(),
        os.getppid(),
        version("onceflow"),
        lease_seconds,
    )


async def renew(database: Database, process: UUID, lease_seconds: float, *, ready: bool = False) -> int | None:
    """Extend the lease, and the readiness of one that does its work; None if the process was declared dead.

    Otherwise its rank among the living of its kind, from 0: no right of any sort, only a hint for who looks first.
    """
    return await database.fetchval("processes/renew", process, lease_seconds, ready)


async def stop(database: Database, process: UUID) -> None:
    """Say goodbye; what it owns is still to be released."""
    await database.execute("processes/stop", process)


async def bury(database: Database, seen_dead: Sequence[UUID] = (), *, expired: bool = False) -> list[UUID]:
    """Declare dead those that their parent saw end, and with `expired` whose lease ran out; free what they owned."""
    found = await declare_dead(database, seen_dead, expired=expired)
    dead = found + [p for p in seen_dead if p not in found]
    if dead:
        await release(database, dead)
    return dead


async def declare_dead(database: Database, seen_dead: Sequence[UUID] = (), *, expired: bool = False) -> list[UUID]:
    """Declare them dead; those that were not yet. What they own is still to be released."""
    return [r["id"] for r in await database.fetch("processes/bury", list(seen_dead), expired)]


async def release(database: Database, owners: Sequence[UUID]) -> None:
    """Free the watchers of these owners, and let their tasks' leases run out now."""
    await database.execute("watchers/release_dead", list(owners))
    await database.execute("tasks/expire_of_dead", list(owners))


async def live(database: Database, kind: str) -> int:
    """How many processes of this kind hold their lease."""
    return await database.fetchval("processes/live", kind)
