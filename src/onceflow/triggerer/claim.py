"""Takes this triggerer's fair share of the watchers, and compares what it owns with what it runs."""

from __future__ import annotations

from typing import TypeGuard

from onceflow.model.clock import boot_seconds
from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.runtime.service import Service
from onceflow.store import watchers
from onceflow.store.watchers import Owned, OwnedWatcher
from onceflow.triggerer.host import Host, Watch
from onceflow.triggerer.release import release

CLAIMED_AT_ONCE = 200

log = get_logger("onceflow.triggerer")


class ClaimWatchers(Service):
    """Claims watchers of mode single up to the fair share, and runs all of mode all."""

    name = "claim watchers"
    topics = ("watcher",)

    def __init__(self, role: Role, host: Host) -> None:
        self._role = role
        self._host = host

    async def run_once(self) -> bool:
        role = self._role
        if not role.is_ready or role.stop.is_set():
            return False  # what it would claim, others would take from it
        owned = sum(w.watcher.mode == "single" for w in self._host.watches.values())
        share = await watchers.share(role.database, role.id, take_over=role.may_take_over)
        if share.active:
            self._host.stand_by()
        joined = await self._join() if share.to_join else 0
        if owned > share.fair:
            await self._let_go(owned - share.fair)
            return bool(joined)
        room = min(CLAIMED_AT_ONCE, share.fair - owned)
        if not share.free or room <= 0:
            return bool(joined)
        crash_point("triggerer.claim.before")
        claimed = await watchers.claim(role.database, role.id, room, take_over=role.may_take_over)
        if claimed:
            crash_point("triggerer.claim.after_commit")
        return bool(await self._start(claimed) + joined)

    async def _join(self) -> int:
        crash_point("triggerer.join.before")
        found = await watchers.join(self._role.database, self._role.id, CLAIMED_AT_ONCE)
        if found:
            crash_point("triggerer.join.after_commit")
        return await self._start(found)

    async def _start(self, found: list[OwnedWatcher]) -> int:
        for watcher in found:
            log.info("watcher claimed", watcher=watcher.routes.label, mode=watcher.mode, term=watcher.term)
            self._host.start(watcher)
        return len(found)

    async def _let_go(self, surplus: int) -> None:
        """Give up watchers above the fair share; their next owner goes on from the committed cursor."""
        single = [i for i, w in self._host.watches.items() if w.watcher.mode == "single"]
        await give_up(self._role, self._host, single[:surplus])
        self._role.wakeups.notify("watcher")


class CompareWatchers(Service):
    """Compares what the database says this triggerer owns with what it runs, and tells what has looked at its source.

    The lease is the process's own, so it costs one row however many watchers there are. What it owns and does not run,
    as after a claim whose answer was lost, it gives up; what it runs and does not own is fenced; edited and removed
    ones are stopped. A triggerer that has not done this for one lease is not ready, and loses its watchers to others.
    """

    name = "compare watchers"
    topics = ("watcher",)
    rest = 0.1

    def __init__(self, role: Role, host: Host) -> None:
        self._role = role
        self._host = host
        self._done_at = float("-inf")
        self.poll = role.settings.lease_seconds / 2

    def is_up_to_date(self, seconds: float) -> bool:
        """Whether it was done within the last seconds."""
        return boot_seconds() - self._done_at <= seconds

    async def run_once(self) -> bool:
        role, begin = self._role, boot_seconds()
        running = dict(self._host.watches)
        await self._tell_observed(running)
        owned = await watchers.owned(role.database, role.id, role.settings.lease_seconds)
        crash_point("triggerer.compare.after_read")
        await self._give_up_strays(owned, running)
        lost = [w for i, w in running.items() if not _ours(owned.get(i), w) and self._host.watches.get(i) is w]
        if lost:
            log.warning("watchers no longer ours", watchers=[w.feeds.label for w in lost])
            self._host.fence([w.watcher.id for w in lost])
            await release(role, [(w.watcher.id, w.watcher.term) for w in lost])
        changed = [
            i for i, w in running.items() if _ours(ours := owned.get(i), w) and ours.generation != w.watcher.generation
        ]
        if changed:
            await give_up(role, self._host, changed)
            role.wakeups.notify("watcher")
        self._done_at = begin
        return False

    async def _tell_observed(self, running: dict[int, Watch]) -> None:
        seen = [w for w in running.values() if w.observed]
        for watch in seen:
            watch.observed = False
        crash_point("triggerer.observe.before")
        await watchers.observed(self._role.database, self._role.id, [(w.watcher.id, w.watcher.term) for w in seen])
        if seen:
            crash_point("triggerer.observe.after_commit")

    async def _give_up_strays(self, owned: dict[int, Owned], running: dict[int, Watch]) -> None:
        """Claims whose answer was lost: nobody runs them, and nobody else may."""
        known = self._host.watches.keys() | self._host.leaving | running.keys()
        strays = [o for i, o in owned.items() if o.settled and i not in known]
        if strays:
            log.warning("watchers owned but not run", watchers=[o.id for o in strays])
            await release(self._role, [(o.id, o.term) for o in strays])
            self._role.wakeups.notify("watcher")


def _ours(owned: Owned | None, watch: Watch) -> TypeGuard[Owned]:
    return owned is not None and owned.term == watch.watcher.term


async def give_up(role: Role, host: Host, ids: list[int]) -> None:
    """Stop these watchers' triggers and release them."""
    dropped = [w for i in ids if (w := host.drop(i)) is not None]
    await release(role, [(w.watcher.id, w.watcher.term) for w in dropped])
