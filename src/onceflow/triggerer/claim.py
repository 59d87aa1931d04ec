"""Takes this triggerer's fair share of the watchers, keeps their leases, and lets go of what is too much."""

from __future__ import annotations

from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.runtime.service import Service
from onceflow.store import watchers
from onceflow.triggerer.host import Host, Watch

CLAIMED_AT_ONCE = 200

log = get_logger("onceflow.triggerer")


class ClaimWatchers(Service):
    name = "claim watchers"
    topics = ("watcher",)

    def __init__(self, role: Role, host: Host) -> None:
        self._role = role
        self._host = host

    async def run_once(self) -> bool:
        role, owned = self._role, len(self._host.watches)
        share = await watchers.share(role.database, take_over=role.may_take_over)
        if owned > share.fair:
            await self._let_go(owned - share.fair)
            return False
        room = min(CLAIMED_AT_ONCE, share.fair - owned)
        if not share.free or room <= 0 or role.stop.is_set():
            return False
        crash_point("triggerer.claim.before")
        claimed = await watchers.claim(
            role.database, role.id, room, role.settings.lease_seconds, take_over=role.may_take_over
        )
        if claimed:
            crash_point("triggerer.claim.after_commit")
        for watcher in claimed:
            log.info("watcher claimed", asset=watcher.asset, watcher=watcher.name, term=watcher.term)
            self._host.start(watcher)
        return bool(claimed)

    async def _let_go(self, surplus: int) -> None:
        """Give up watchers above the fair share; their next owner goes on from the committed cursor."""
        await give_up(self._role, self._host, list(self._host.watches)[:surplus])
        self._role.wakeups.notify("watcher")


class RenewWatchers(Service):
    """Renews the leases of the watchers under way; those no longer ours are fenced, edited and removed ones stopped."""

    name = "renew watchers"

    def __init__(self, role: Role, host: Host) -> None:
        self._role = role
        self._host = host
        self.poll = role.settings.renew_seconds

    async def run_once(self) -> bool:
        held = list(self._host.watches.values())
        observed = [w.observed for w in held]
        for watch in held:
            watch.observed = False
        kept = await watchers.renew(
            self._role.database,
            self._role.id,
            [(w.watcher.id, w.watcher.term, o) for w, o in zip(held, observed, strict=True)],
            self._role.settings.lease_seconds,
        )
        lost = [w for w in held if w.watcher.id not in kept and self._still(w)]
        changed = [w for w in held if kept.get(w.watcher.id, w.watcher.generation) != w.watcher.generation]
        crash_point("triggerer.renew.after_commit")
        if lost:
            log.warning("watchers no longer ours", watchers=[w.watcher.name for w in lost])
            self._host.fence([w.watcher.id for w in lost])
            await watchers.release(self._role.database, self._role.id, [(w.watcher.id, w.watcher.term) for w in lost])
        if changed:
            await give_up(self._role, self._host, [w.watcher.id for w in changed])
            self._role.wakeups.notify("watcher")
        return False

    def _still(self, watch: Watch) -> bool:
        return self._host.watches.get(watch.watcher.id) is watch


async def give_up(role: Role, host: Host, ids: list[int]) -> None:
    """Stop these watchers' triggers and release them."""
    dropped = [w for i in ids if (w := host.drop(i)) is not None]
    crash_point("triggerer.release.before")
    await watchers.release(role.database, role.id, [(w.watcher.id, w.watcher.term) for w in dropped])
    crash_point("triggerer.release.after_commit")
