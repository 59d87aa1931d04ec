"""The watchers that this triggerer owns, and the guests in which their triggers run."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from onceflow.model.clock import boot_seconds
from onceflow.model.errors import FencedError
from onceflow.model.storm import Rate
from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.store import watchers
from onceflow.store.database import is_transient
from onceflow.store.waiting import happens_within
from onceflow.store.watchers import OwnedWatcher, Routes
from onceflow.triggerer.deliver import Batch, deliver
from onceflow.triggerer.process import BLOCKED_SECONDS, GuestProcess
from onceflow.triggerer.release import release

RESTART_SECONDS = 1.0
WATCH_SECONDS = 0.25
STEADY_SECONDS = 60.0
WRITES_AT_ONCE = 2
"""Fewer than the pool has connections, so that a rush of events never keeps the leases from being renewed."""

log = get_logger("onceflow.triggerer")


@dataclass(slots=True)
class Watch:
    """A watcher under way in a guest: one start of its trigger. `delivering`: what it yielded is being stored."""

    watcher: OwnedWatcher
    guest: Guest
    cursor: str | None
    feeds: Routes
    rate: Rate
    started: bool = False
    observed: bool = False
    delivering: bool = False
    start: UUID = field(default_factory=uuid4)


@dataclass(eq=False)
class Guest:
    """A guest process and who lives in it.

    `own`: nobody is added to it. It holds a watcher that blocked others before, or some of a guest that ended soon.
    """

    process: GuestProcess
    own: bool
    since: float = field(default_factory=boot_seconds)
    watches: dict[int, Watch] = field(default_factory=dict)


class Host:
    """Owns guests and watches; decides what a failure means for each."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self._group: asyncio.TaskGroup | None = None
        self._guests: list[Guest] = []
        self._batches = itertools.count(1)
        self._writes = asyncio.Semaphore(WRITES_AT_ONCE)
        self.watches: dict[int, Watch] = {}
        self.leaving: set[int] = set()
        """Watchers that are not run any more, and about to be given up."""

    def attach(self, group: asyncio.TaskGroup) -> None:
        """The task group that owns the coroutines started here."""
        self._group = group

    def start(self, watcher: OwnedWatcher) -> None:
        """Run the watcher's trigger from its committed cursor."""
        own = watcher.strikes > 0
        guest = self._open(own=True) if own else self._shared()
        self._start_in(guest, watcher, watcher.cursor)

    def stand_by(self) -> None:
        """Have a guest ready for watchers of others, so that one whose owner is killed is watched again at once."""
        self._shared()

    def drop(self, watcher: int) -> Watch | None:
        """Stop the trigger; what it says from now on is not heard."""
        watch = self.watches.pop(watcher, None)
        if watch is not None:
            watch.guest.watches.pop(watcher, None)
            watch.guest.process.send(op="stop", watcher=watcher)
            self._end_if_empty(watch.guest)
        return watch

    def fence(self, lost: Iterable[int]) -> None:
        """These are no longer ours: their guests are killed, and the others in them start again."""
        lost = set(lost)
        for guest in {self.watches[w].guest for w in lost if w in self.watches}:
            self._restart(guest, without=lost)

    async def watch_over(self, stop: asyncio.Event) -> None:
        """End guests whose loop stands still, and name the watcher that blocks it."""
        last = boot_seconds()
        while not stop.is_set():
            await happens_within(stop, WATCH_SECONDS)
            late = boot_seconds() - last > 4 * WATCH_SECONDS
            last = boot_seconds()
            if late:
                continue  # this process stood still itself: hear the guests first
            for guest in [g for g in self._guests if g.process.blocked]:
                await self._end_blocked(guest)

    def close(self) -> None:
        for guest in self._guests:
            guest.process.end()
        self._guests.clear()
        self.watches.clear()

    def _shared(self) -> Guest:
        for guest in self._guests:
            if not guest.own:
                return guest
        return self._open(own=False)

    def _open(self, *, own: bool) -> Guest:
        guest: Guest
        process = GuestProcess(self._role.settings, lambda m: self._heard(guest, m), lambda: self._ended(guest))
        guest = Guest(process, own)
        self._guests.append(guest)
        return guest

    def _start_in(self, guest: Guest, watcher: OwnedWatcher, cursor: str | None) -> None:
        before = self.watches.get(watcher.id)
        feeds = before.feeds if before is not None else watcher.routes
        rate = before.rate if before is not None else Rate(self._limit(watcher))
        watch = guest.watches[watcher.id] = self.watches[watcher.id] = Watch(watcher, guest, cursor, feeds, rate)
        watch.guest.process.send(
            op="start",
            watcher=watcher.id,
            term=watcher.term,
            classpath=watcher.classpath,
            kwargs=watcher.kwargs,
            file=watcher.file,
            code=watcher.code,
            canary=watcher.canary,
            keys=[
                {"asset_id": r.asset_id, "asset": r.asset, "name": r.name, "file": r.key_file, "match": r.match}
                for r in feeds.routes
                if r.key_file
            ],
            cursor=None if cursor is None else json.loads(cursor),
        )

    def _limit(self, watcher: OwnedWatcher) -> int:
        own = watcher.max_events_per_minute
        return self._role.settings.max_events_per_minute if own is None else own

    def _heard(self, guest: Guest, message: dict[str, Any]) -> None:
        if "alive" in message:
            for watcher in message["alive"]:
                if watch := guest.watches.get(watcher):
                    watch.observed = True
            return
        kind = next(k for k in ("batch", "canary", "started", "ended", "failed") if k in message)
        watch = guest.watches.get(message[kind])
        if watch is None or watch.watcher.term != message["term"]:
            return  # it was dropped meanwhile
        if kind == "started":
            watch.started = True
        elif kind == "batch":
            watch.delivering = True
            self._spawn(self._deliver(watch, Batch.read(message)))
        elif kind == "canary":
            self._spawn(self._store_canary(watch, message["made_at"], message["noticed_at"]))
        elif kind == "failed":
            self._spawn(self._give_up(watch, message["error"]))
        else:
            self._spawn(self._pause(watch))

    def _spawn(self, coroutine: Any) -> None:
        assert self._group is not None
        self._group.create_task(coroutine)

    async def _deliver(self, watch: Watch, batch: Batch) -> None:
        if not watch.rate.allows(len(batch.events), boot_seconds()):
            await self._trip(watch)
            return
        try:
            async with self._writes:
                watch.feeds = await deliver(
                    self._role, watch.watcher, watch.start, batch, next(self._batches), watch.feeds
                )
        except FencedError:
            await self._lose(watch)
            return
        except Exception as error:
            if is_transient(error):
                raise  # the role ends: its lease has run out
            await self._give_up(watch, {"type": type(error).__name__, "message": str(error), "traceback": ""})
            return
        watch.cursor, watch.delivering = batch.cursor or watch.cursor, False
        if self.watches.get(watch.watcher.id) is not watch:
            return
        if watch.guest in self._guests:
            watch.guest.process.send(op="ack", watcher=watch.watcher.id, n=batch.number)
        else:
            self._start_again(watch)

    async def _store_canary(self, watch: Watch, made_at: float, noticed_at: float) -> None:
        """It takes the way of a batch; if the database is away there will be another one."""
        try:
            async with self._writes:
                now = boot_seconds()
                crash_point("triggerer.canary.before")
                await watchers.store_canary(
                    self._role.database,
                    self._role.id,
                    watch.watcher.id,
                    watch.watcher.term,
                    made_ago=now - made_at,
                    noticed_ago=now - noticed_at,
                )
                crash_point("triggerer.canary.after_commit")
        except Exception as error:
            if not is_transient(error):
                raise
            log.warning("canary not stored", watcher=watch.feeds.label, error=str(error))
            return
        self._role.wakeups.notify("canary")

    async def _lose(self, watch: Watch) -> None:
        """The watcher has another owner or another definition by now."""
        watcher = watch.watcher
        if self.watches.get(watcher.id) is watch:
            self.fence([watcher.id])
            self.drop(watcher.id)  # still there if its guest had ended already
        await release(self._role, [(watcher.id, watcher.term)])
        self._role.wakeups.notify("watcher")

    async def _give_up(self, watch: Watch, error: dict[str, Any]) -> None:
        watcher = watch.watcher
        log.warning("watcher failed", watcher=watch.feeds.label, error=error["message"])
        with self._leaving(watcher.id):
            if self.watches.get(watcher.id) is watch:
                self.drop(watcher.id)
            crash_point("triggerer.fail.before")
            await watchers.fail(self._role.database, self._role.id, watcher.id, watcher.term, error)
            crash_point("triggerer.fail.after_commit")

    async def _trip(self, watch: Watch) -> None:
        """It tells too much: it is stopped. What it told just now is not stored, and told again from its cursor."""
        watcher, rate = watch.watcher, watch.rate
        log.warning("watcher tells more in a minute than allowed: stopped", watcher=watch.feeds.label, limit=rate.limit)
        with self._leaving(watcher.id):
            if self.watches.get(watcher.id) is watch:
                self.drop(watcher.id)
            storm = {"events": rate.count, "limit": rate.limit}
            crash_point("triggerer.trip.before")
            await watchers.trip(self._role.database, self._role.id, watcher.id, watcher.term, storm)
            crash_point("triggerer.trip.after_commit")
        self._role.wakeups.notify("watcher")

    async def _pause(self, watch: Watch) -> None:
        watcher = watch.watcher
        with self._leaving(watcher.id):
            self.drop(watcher.id)
            crash_point("triggerer.pause.before")
            await watchers.pause(self._role.database, self._role.id, watcher.id, watcher.term, RESTART_SECONDS)
            crash_point("triggerer.pause.after_commit")

    @contextmanager
    def _leaving(self, *ids: int) -> Iterator[None]:
        self.leaving.update(ids)
        try:
            yield
        finally:
            self.leaving.difference_update(ids)

    async def _end_blocked(self, guest: Guest) -> None:
        culprit = guest.process.marked
        stack = await guest.process.dump_stack()
        if guest not in self._guests or not guest.process.blocked:
            return
        text = f"the trigger blocked the event loop for more than {BLOCKED_SECONDS:g} s"
        error = {"type": "BlockedLoop", "message": text, "traceback": stack}
        await self._end_with_culprits(guest, {culprit}, error)

    def _ended(self, guest: Guest) -> None:
        """A guest ended by itself: the watcher whose code ran then is to blame, or those that were just starting.

        When nobody's was running (a thread ended the process, or the loop), all start again; if that does not last,
        half of them here and half there, until one is alone with what it does.
        """
        if guest not in self._guests:
            return
        code = guest.process.exit_code()
        culprits = {guest.process.marked} & guest.watches.keys()
        culprits = culprits or {i for i, w in guest.watches.items() if not w.started or len(guest.watches) == 1}
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if not culprits:
            log.warning("guest ended, and no watcher's code was running", how=how, watchers=len(guest.watches))
            self._restart(guest, without=set(), apart=boot_seconds() - guest.since < STEADY_SECONDS)
            return
        error = {"type": "GuestEnded", "message": f"the trigger ended its process ({how})", "traceback": ""}
        self._spawn(self._end_with_culprits(guest, culprits, error))

    async def _end_with_culprits(self, guest: Guest, culprits: set[int], error: dict[str, Any]) -> None:
        guilty = [w for i, w in guest.watches.items() if i in culprits]
        with self._leaving(*culprits):
            self._restart(guest, without=culprits)
            for watch in guilty:
                await self._give_up(watch, error)

    def _restart(self, guest: Guest, without: set[int], *, apart: bool = False) -> None:
        """End a guest; all but some of its watchers start again in another one, from their committed cursors.

        `apart`: in two.
        """
        if guest not in self._guests:
            return
        self._guests.remove(guest)
        guest.process.end()
        again: list[Watch] = []
        for watcher_id, watch in guest.watches.items():
            if self.watches.get(watcher_id) is watch:
                if watcher_id in without:
                    del self.watches[watcher_id]
                elif not watch.delivering:  # else its cursor is about to move: it starts again after that
                    again.append(watch)
        half = len(again) // 2 if apart else 0
        for part in (again[:half], again[half:]):
            if part:
                target = self._open(own=True) if guest.own or apart else self._shared()
                for watch in part:
                    self._start_in(target, watch.watcher, watch.cursor)

    def _start_again(self, watch: Watch) -> None:
        target = self._open(own=True) if watch.guest.own else self._shared()
        self._start_in(target, watch.watcher, watch.cursor)

    def _end_if_empty(self, guest: Guest) -> None:
        if not guest.watches and guest in self._guests:
            self._guests.remove(guest)
            guest.process.end()
