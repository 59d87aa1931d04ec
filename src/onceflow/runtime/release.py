"""Frees what a dead child owned, at once: a short-lived process, so that the parent need no driver itself.

Reads {"settings": …, "dead": [process ids]} from standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from uuid import UUID

from onceflow.config import from_values
from onceflow.store.database import Database
from onceflow.store.notify import notify_once
from onceflow.store.processes import bury


async def release(url: str, dead: list[UUID]) -> None:
    """Declare the processes dead and wake those who take over."""
    async with await Database.connect(url, kind="release") as database:
        await bury(database, dead)
        await notify_once(database, "task", "watcher")


def main() -> None:
    request = json.loads(sys.stdin.read())
    settings = from_values(request["settings"])
    asyncio.run(release(settings.database_url, [UUID(p) for p in request["dead"]]))


if __name__ == "__main__":
    main()
