"""The service loop, which exists once: wake, run, look again, back off, stop.

"Nothing claimed" is not "no work": rows may be locked by another process for a moment. So a service that found work
but could not lock it looks again after 3, 10 and 30 ms before it sleeps until the next wake-up or poll.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence

from onceflow.model.clock import boot_seconds
from onceflow.model.errors import FencedError
from onceflow.runtime.log import get_logger
from onceflow.runtime.wakeups import Wakeups
from onceflow.store.database import is_transient
from onceflow.store.waiting import happens_within

LOOKS = (0.003, 0.010, 0.030)
LONGEST_BACK_OFF = 10.0
BUSY_PACE = 3
SELDOM = 60.0
"""Poll of a service that something else wakes as often as it needs to look."""

log = get_logger("onceflow.service")


class Service(ABC):
    """A duty of a process.

    `poll` is the longest sleep in seconds; `topics` are what wakes it earlier; `rest` is the shortest time from one
    look to the next. `pace` is that time after a batch of several, and it grows to BUSY_PACE times that while there is
    always more: under load batches grow instead of their number, while what comes one by one is never put off.
    """

    name: str
    topics: Sequence[str] = ()
    poll: float = 1.0
    pace: float = 0.0
    rest: float = 0.002
    contended: bool = False
    more: bool = True
    handled: int = 1
    working_since: float | None = None
    failing_since: float | None = None
    """When its first batch, and the first of those that failed one after the other, had ended."""

    def is_ready(self, patience: float) -> bool:
        """Whether it has done a batch, and has not failed for longer than so many seconds since."""
        if self.working_since is None:
            return False
        return self.failing_since is None or boot_seconds() - self.failing_since <= patience

    @abstractmethod
    async def run_once(self) -> bool:
        """Do one batch of work; returns whether there was any.

        Sets `contended` if there was some, but locked; `more` to False if the batch was all there was, so that the next
        look can wait for the wake-up that tells of more; `handled` to how many things the batch held.
        """


class Background(ABC):
    """A duty with a loop of its own, such as a server; `run` returns when `stop` is set."""

    def is_ready(self, patience: float) -> bool:
        """Whether it does its work, or did within so many seconds."""
        return True

    name: str

    @abstractmethod
    async def run(self, stop: asyncio.Event) -> None: ...


async def run_service(service: Service, wakeups: Wakeups, stop: asyncio.Event) -> None:
    """Run the service until `stop`. An error is logged and backed off; it never ends the loop."""
    wake = wakeups.subscribe(service.topics)
    look, failures, busy = 0, 0, 0
    while not stop.is_set():
        wake.clear()
        begin = boot_seconds()
        service.contended, service.more, service.handled = False, True, 1
        try:
            did_work = await service.run_once()
        except Exception as error:
            if isinstance(error, FencedError):
                raise
            failures += 1
            service.failing_since = service.failing_since or boot_seconds()
            _report(service, error, failures)
            await _wait_for(wake, stop, _back_off(failures))
            continue
        failures, service.failing_since = 0, None
        service.working_since = service.working_since or boot_seconds()
        if did_work:
            look, busy = 0, min(busy + 1, BUSY_PACE) if service.handled > 1 else 0
            pause = max(service.rest, service.pace * busy)
            await asyncio.sleep(max(0.0, begin + pause - boot_seconds()))
            if service.more or wake.is_set():
                continue
        busy = 0
        if service.contended and look < len(LOOKS):
            await _wait_for(wake, stop, LOOKS[look])
            look += 1
            continue
        await _wait_for(wake, stop, service.poll * random.uniform(0.9, 1.1))
        await asyncio.sleep(max(0.0, begin + service.rest - boot_seconds()))
        look = 0


def _report(service: Service, error: Exception, failures: int) -> None:
    if is_transient(error):
        log.warning("service waits for the database", service=service.name, error=str(error), failures=failures)
    else:
        log.error("service failed", service=service.name, failures=failures, exc_info=error)


def _back_off(failures: int) -> float:
    return min(LONGEST_BACK_OFF, 0.05 * 2 ** min(failures, 10)) * random.uniform(0.5, 1.0)


async def _wait_for(wake: asyncio.Event, stop: asyncio.Event, seconds: float) -> None:
    """Sleep until woken or stopped, at most so many seconds."""
    if not stop.is_set():
        await happens_within(wake, seconds)
