"""The worker's process: claims and runs attempts until told to stop, then lets go of them in good order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from onceflow.executors import load
from onceflow.executors.base import Executor
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role, main
from onceflow.runtime.service import Background, Service, run_service
from onceflow.worker.claim import ClaimTasks
from onceflow.worker.finish import FinishAttempts, RenewTasks, finish_all
from onceflow.worker.host import Guests

FLUSH_SECONDS = 2.0

log = get_logger("onceflow.worker")


class Work(Background):
    """Owns the guests: finishing and renewing go on until the last of them has ended."""

    name = "work"

    def __init__(self, role: Role, executor: Executor) -> None:
        self._role = role
        self._executor = executor
        self._guests = Guests(role)

    async def run(self, stop: asyncio.Event) -> None:
        role, guests, ended = self._role, self._guests, asyncio.Event()
        executor = self._executor
        finish = FinishAttempts(role, guests, executor)
        try:
            async with asyncio.TaskGroup() as group:
                guests.attach(group)
                group.create_task(run_service(finish, role.wakeups, ended))
                group.create_task(run_service(RenewTasks(role, guests, executor), role.wakeups, ended))
                group.create_task(run_service(ClaimTasks(role, guests, executor), role.wakeups, stop))
                await stop.wait()
                await guests.stop()
                ended.set()
                role.wakeups.wake_all()
            await finish_all(finish, guests, FLUSH_SECONDS)
        except TimeoutError:
            log.error("reports not stored before the end; the tasks will run again", reports=len(guests.reports))
        finally:
            guests.close()


async def build(role: Role) -> Sequence[Service | Background]:
    settings = role.settings
    return [Work(role, load(settings.executor, role.database, role.id, settings.lease_seconds))]


if __name__ == "__main__":
    main("worker", build)
