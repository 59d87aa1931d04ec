"""A role child: connects, registers, keeps its lease, runs its services, says goodbye.

Standard input is a socket that leads to the parent, which hands over the settings, with the database's address, as one
JSON line. So the address is never in an environment that guests could inherit. Its end of file says that the parent is
gone. The other way go pulses: a child whose loop stands still sends none, and its parent kills it.

Exit codes: 0 stopped as asked, 1 a fault, 2 a setting is wrong, 4 the lease was lost, 5 the database has another
schema or cannot be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn
from uuid import UUID

from onceflow.config import Settings, crash_points, from_values
from onceflow.guest.lifeline import die_with_parent
from onceflow.model.clock import boot_seconds
from onceflow.model.errors import ConfigError, FencedError, UnreachableError, UnsupportedError
from onceflow.runtime import log as logs
from onceflow.runtime.crash_points import crash_point, listen
from onceflow.runtime.log import get_logger
from onceflow.runtime.service import Background, Service, run_service
from onceflow.runtime.wakeups import Wakeups
from onceflow.store import processes
from onceflow.store.database import Database, is_transient
from onceflow.store.migrate import wait_until_ready
from onceflow.store.waiting import done_within, happens_within

MISCONFIGURED, LEASE_LOST, UNUSABLE = 2, 4, 5
CONNECTIONS = 3
TURN_SECONDS = 0.15
PULSES = 6  # sent in the time after which the parent gives up
READY_SECONDS = 0.05
LAST_SECONDS = 1.0
"""After so long a process that lost its lease ends, whatever it still waits for; its guests end with it."""
OWNERS = frozenset({"triggerer", "worker"})
"""Roles that own something outside the database, so that they must end when their lease ran out by their own clock."""

log = get_logger("onceflow.role")


@dataclass
class Role:
    """What a role's services share."""

    kind: str
    id: UUID
    settings: Settings
    database: Database
    wakeups: Wakeups
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    steady_since: float = field(default_factory=boot_seconds)
    valid_until: float = float("inf")
    ready_until: float = float("-inf")

    @property
    def is_ready(self) -> bool:
        """Whether the database knows that this process does its work."""
        return boot_seconds() < self.ready_until

    @property
    def may_take_over(self) -> bool:
        """After an outage nobody takes others' leases before having been connected for one lease."""
        return boot_seconds() - self.steady_since >= self.settings.lease_seconds


Build = Callable[[Role], Awaitable[Sequence[Service | Background]]]


def main(kind: str, build: Build) -> NoReturn:
    """Run this process as a role child of its parent, then exit."""
    parent = os.getppid()
    die_with_parent(parent)
    handed_over = json.loads(sys.stdin.buffer.readline())
    settings = from_values(handed_over["settings"])
    logs.configure(settings, role=kind, pid=os.getpid())
    listen(crash_points())
    try:
        code = asyncio.run(_run(kind, UUID(handed_over["process"]), settings, build))
    except (UnreachableError, UnsupportedError) as error:
        log.error("cannot work", **error.as_dict())
        code = UNUSABLE
    except ConfigError as error:
        log.error("cannot work as it is set up", **error.as_dict())
        code = MISCONFIGURED
    sys.exit(code)


async def _run(kind: str, process: UUID, settings: Settings, build: Build) -> int:
    os.set_blocking(sys.stdin.fileno(), False)
    _pulse(asyncio.get_running_loop(), settings.hang_seconds / PULSES)
    await wait_until_ready(
        settings.database_url, waiting=lambda reason: log.warning("waiting for the database", reason=reason)
    )
    async with await Database.connect(
        settings.database_url,
        max_size=CONNECTIONS,
        kind=kind,
        lease_seconds=settings.lease_seconds,
        pooler=settings.database_pooler,
    ) as database:
        role = Role(kind, process, settings, database, Wakeups())
        crash_point("role.register.before")
        await processes.register(database, process, kind, settings.lease_seconds)
        crash_point("role.register.after_commit")
        log.info("at work", process=str(process))
        return await _serve(role, build)


def _pulse(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """Tell the parent, now and again and again, that the loop goes round."""
    with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):  # it is frozen, or gone
        os.write(sys.stdin.fileno(), b".")
    loop.call_later(seconds, _pulse, loop, seconds)


async def _serve(role: Role, build: Build) -> int:
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, _stop, role)
    work = await build(role)
    duties = [Heartbeat(role, work), ParentWatch(role), *work]
    code = 0
    try:
        async with asyncio.TaskGroup() as group:
            if role.settings.database_pooler != "transaction":
                bell = role.wakeups.connect(
                    role.settings.database_url, role.id, lease_seconds=role.settings.lease_seconds, kind=role.kind
                )
                group.create_task(bell.run(role.stop), name="wake-ups")
            for duty in duties:
                group.create_task(_run_duty(duty, role), name=duty.name)
    except* FencedError:
        code = LEASE_LOST
    if code == 0:
        await _say_goodbye(role)
    return code


async def _run_duty(duty: Service | Background, role: Role) -> None:
    try:
        if isinstance(duty, Background):
            await duty.run(role.stop)
        else:
            await run_service(duty, role.wakeups, role.stop)
    except BaseException as error:
        if isinstance(error, FencedError):
            log.error("lease lost: ending", error=str(error))
            asyncio.get_running_loop().call_later(LAST_SECONDS, os._exit, LEASE_LOST)
        _stop(role)  # the others are cancelled now; one that misses it ends all the same
        raise


def _stop(role: Role) -> None:
    role.stop.set()
    role.wakeups.wake_all()


async def _say_goodbye(role: Role) -> None:
    try:
        crash_point("role.sign_off.before")
        await processes.stop(role.database, role.id)
        crash_point("role.sign_off.stopped")
        await processes.release(role.database, [role.id])
        crash_point("role.sign_off.after_commit")
    except Exception as error:
        log.warning("could not sign off; the lease will run out", error=str(error))


class Heartbeat(Background):
    """Renews the process's lease, and its readiness while every duty does its work.

    An owner whose lease ran out by its own clock ends, before it asks anybody.
    """

    name = "heartbeat"

    def __init__(self, role: Role, work: Sequence[Service | Background]) -> None:
        self._role = role
        self._work = work

    async def run(self, stop: asyncio.Event) -> None:
        role = self._role
        role.valid_until = boot_seconds() + role.settings.lease_seconds
        while not await self._is_over(stop):
            sent = boot_seconds()
            if role.kind in OWNERS and sent > role.valid_until:
                raise FencedError(f"not renewed for {role.settings.lease_seconds} s")
            await self._renew(sent)

    def _works(self) -> bool:
        return all(duty.is_ready(self._role.settings.lease_seconds) for duty in self._work)

    async def _is_over(self, stop: asyncio.Event) -> bool:
        """Wait until it is time to renew; a process that has just begun to work says so at once. Whether to stop."""
        until = boot_seconds() + self._role.settings.renew_seconds
        was_ready = self._role.is_ready
        while (left := until - boot_seconds()) > 0 and (was_ready or not self._works()):
            if await happens_within(stop, left if was_ready else min(left, READY_SECONDS)):
                return True
        return stop.is_set()

    async def _renew(self, sent: float) -> None:
        role, ready = self._role, self._works()
        try:
            lease = role.settings.lease_seconds
            left = max(role.valid_until - sent, 2 * role.settings.renew_seconds) if role.kind in OWNERS else lease
            crash_point("role.renew.before")
            rank = await done_within(processes.renew(role.database, role.id, lease, ready=ready), left)
            crash_point("role.renew.after_commit")
        except Exception as error:
            if not is_transient(error):
                raise
            role.steady_since = boot_seconds()
            log.warning("lease not renewed", error=str(error) or type(error).__name__)
            return
        if rank is None:
            raise FencedError("declared dead by another process")
        if sent > role.valid_until:
            role.steady_since = boot_seconds()
        role.valid_until = sent + role.settings.lease_seconds
        if ready:
            self._say_ready(sent)
        if (
            role.kind == "scheduler"
        ):  # all of them hear of new work at once; one after the other they do not race for it
            role.wakeups.patience = rank * TURN_SECONDS

    def _say_ready(self, sent: float) -> None:
        began = not self._role.is_ready
        self._role.ready_until = sent + self._role.settings.lease_seconds
        if began:
            self._role.wakeups.wake_all()  # what waited for this can begin


class ParentWatch(Background):
    """Stops the role when its parent's end of standard input closes."""

    name = "parent watch"

    def __init__(self, role: Role) -> None:
        self._role = role

    async def run(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        descriptor = sys.stdin.fileno()
        loop.add_reader(descriptor, self._readable, descriptor)
        try:
            await stop.wait()
        finally:
            loop.remove_reader(descriptor)

    def _readable(self, descriptor: int) -> None:
        try:
            if not os.read(descriptor, 1024):
                _stop(self._role)
        except BlockingIOError:
            return
