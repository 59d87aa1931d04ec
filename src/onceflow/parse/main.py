"""The dag-processor's process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from onceflow.parse.child import ParseGuest
from onceflow.parse.process_files import ProcessFiles
from onceflow.runtime.role import Role, main
from onceflow.runtime.service import Background, Service, run_service


class WatchFolder(Background):
    """Wakes the scan as soon as something in the DAG folder changes. A scan now and then is the truth."""

    name = "watch folder"

    def __init__(self, role: Role) -> None:
        self._role = role

    async def run(self, stop: asyncio.Event) -> None:
        from watchfiles import PythonFilter, awatch

        async for _ in awatch(
            self._role.settings.dags_folder, watch_filter=PythonFilter(), debounce=50, step=50, stop_event=stop
        ):
            self._role.wakeups.wake("folder")


class Processing(Background):
    """Owns the parse guest: it ends with the processing."""

    name = "processing"

    def __init__(self, role: Role) -> None:
        self._role = role

    async def run(self, stop: asyncio.Event) -> None:
        guest = ParseGuest(self._role.settings)
        try:
            await run_service(ProcessFiles(self._role, guest), self._role.wakeups, stop)
        finally:
            await guest.end()


async def build(role: Role) -> Sequence[Service | Background]:
    role.settings.dags_folder.mkdir(parents=True, exist_ok=True)
    return [WatchFolder(role), Processing(role)]


if __name__ == "__main__":
    main("dag-processor", build)
