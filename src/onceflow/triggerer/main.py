"""The triggerer's process: claims watchers and runs them until told to stop, then releases them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from onceflow.runtime.role import Role, main
from onceflow.runtime.service import Background, Service, run_service
from onceflow.triggerer.claim import ClaimWatchers, CompareWatchers, give_up
from onceflow.triggerer.host import Host


class Watching(Background):
    """Owns the guests."""

    name = "watching"

    def __init__(self, role: Role) -> None:
        self._role = role
        self._host = Host(role)
        self._compare = CompareWatchers(role, self._host)

    def is_ready(self, patience: float) -> bool:
        """Whether its watchers are in its hands: only then may it keep them."""
        return self._compare.is_up_to_date(patience)

    async def run(self, stop: asyncio.Event) -> None:
        role, host = self._role, self._host
        try:
            async with asyncio.TaskGroup() as group:
                host.attach(group)
                group.create_task(run_service(self._compare, role.wakeups, stop))
                group.create_task(run_service(ClaimWatchers(role, host), role.wakeups, stop))
                group.create_task(host.watch_over(stop))
            await give_up(role, host, list(host.watches))
            role.wakeups.notify("watcher")
        finally:
            host.close()


async def build(role: Role) -> Sequence[Service | Background]:
    return [Watching(role)]


if __name__ == "__main__":
    main("triggerer", build)
