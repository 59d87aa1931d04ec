"""Takes back what vanished processes held, and ends what is over its time."""

from __future__ import annotations

from onceflow.executors import notify_queued
from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.runtime.service import SELDOM, Service
from onceflow.store import processes, tasks
from onceflow.store.timed import FULL

log = get_logger("onceflow.scheduler")

PROCESS_ROWS_KEPT = 86_400.0


class Glance(Service):
    """Looks for all services at once whether there is anything to do, and wakes those that have: the poll, the truth.

    One statement instead of one per service keeps a resting scheduler cheap.
    """

    name = "glance"

    def __init__(self, role: Role) -> None:
        self._role = role
        self.poll = role.settings.poll_seconds

    async def run_once(self) -> bool:
        row = await self._role.database.fetchrow("server/glance", self._role.may_take_over, FULL)
        assert row is not None
        self._role.wakeups.wake(*[topic for topic, waiting in row.items() if waiting])
        return False


class Rescue(Service):
    name = "rescue"
    topics = ("rescue",)
    poll = SELDOM

    def __init__(self, role: Role) -> None:
        self._role = role

    async def run_once(self) -> bool:
        if self._role.may_take_over:
            await self._bury()
        crash_point("scheduler.rescue.before")
        rescued = await tasks.rescue(self._role.database, take_over=self._role.may_take_over)
        if rescued:
            crash_point("scheduler.rescue.after_commit")
            log.warning("tasks of vanished workers queued again", tasks=rescued)
            notify_queued(self._role.wakeups)
            self._role.wakeups.notify("finish")
        return bool(rescued)

    async def _bury(self) -> None:
        """Declare dead whose lease ran out, and free what they owned; should it end in between, leases do that."""
        crash_point("scheduler.bury.before")
        dead = await processes.declare_dead(self._role.database, expired=True)
        if not dead:
            return
        crash_point("scheduler.bury.declared")
        await processes.release(self._role.database, dead)
        crash_point("scheduler.bury.after_commit")
        log.warning("processes declared dead", processes=[str(p) for p in dead])
        self._role.wakeups.notify("watcher")


class ExpireRuns(Service):
    name = "expire runs"
    topics = ("expire",)
    poll = SELDOM

    def __init__(self, role: Role) -> None:
        self._role = role

    async def run_once(self) -> bool:
        crash_point("scheduler.expire.before")
        expired = await self._role.database.fetch("runs/expire", 100, None)
        if expired:
            crash_point("scheduler.expire.after_commit")
            self._role.wakeups.notify("run", "dag", "delivery")
        return bool(expired)


class PruneProcesses(Service):
    name = "prune processes"
    poll = 600.0

    def __init__(self, role: Role) -> None:
        self._role = role

    async def run_once(self) -> bool:
        crash_point("scheduler.prune_processes.before")
        await self._role.database.execute("processes/prune", PROCESS_ROWS_KEPT)
        crash_point("scheduler.prune_processes.after_commit")
        return False
