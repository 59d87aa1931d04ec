"""The dag-processor's process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from onceflow.parse.child import ParseGuest
from onceflow.parse.process_files import ProcessFiles
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role, main
from onceflow.runtime.service import Background, Service, run_service
from onceflow.store.waiting import happens_within

log = get_logger("onceflow.dag-processor")


class WatchFolder(Background):
    """Wakes the scan as soon as something in the DAG folder changes. A scan now and then is the truth.

    So a watch that fails (no more are allowed, a name cannot be decoded, the folder was removed or replaced) only makes
    changes live later, until it can begin anew.
    """

    name = "watch folder"

    def __init__(self, role: Role) -> None:
        self._role = role
        self._folder = role.settings.dags_folder

    async def run(self, stop: asyncio.Event) -> None:
        problem = ""
        while not stop.is_set():
            try:
                await self._watch(stop)
                problem = ""
            except Exception as error:
                if str(error) != problem:
                    log.warning("the DAG folder cannot be watched; it is scanned now and then", error=str(error))
                problem = str(error)
                await happens_within(stop, self._role.settings.scan_seconds)
            self._role.wakeups.wake("folder")

    async def _watch(self, stop: asyncio.Event) -> None:
        """Until the folder is another one."""
        from watchfiles import PythonFilter, awatch

        watched = _identity(self._folder)
        milliseconds = int(1000 * self._role.settings.scan_seconds)
        async for changes in awatch(
            self._folder,
            watch_filter=PythonFilter(),
            debounce=50,
            step=50,
            stop_event=stop,
            rust_timeout=milliseconds,
            yield_on_timeout=True,
        ):
            if changes:
                self._role.wakeups.wake("folder")
            elif _identity(self._folder) != watched:
                return


def _identity(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino


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
