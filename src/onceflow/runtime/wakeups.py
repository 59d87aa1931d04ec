"""Wake-ups between services, in this process at once and in others through NOTIFY."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from onceflow.store.notify import TOPICS, Bell


class Wakeups:
    """Who waits for which topic; `notify` is called after the commit it tells of."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Event]] = defaultdict(list)
        self._all: list[asyncio.Event] = []
        self._bell: Bell | None = None
        self._put_off: set[str] = set()
        self.patience = 0.0
        """Seconds to wait after another process's notification, so that one that is first has had its turn."""

    def connect(self, url: str, process: UUID, *, lease_seconds: float, kind: str) -> Bell:
        """The connection to other processes; the caller runs it."""
        self._bell = Bell(url, str(process), self._hear, self._wanted, lease_seconds=lease_seconds, kind=kind)
        return self._bell

    def subscribe(self, topics: Iterable[str]) -> asyncio.Event:
        """An event that is set when one of the topics is notified, or everybody has to wake."""
        event = asyncio.Event()
        for topic in topics:
            self._waiting[topic].append(event)
        self._all.append(event)
        return event

    def notify(self, *topics: str) -> None:
        """Wake the waiting services, here and elsewhere."""
        self.wake(*topics)
        if self._bell is not None:
            self._bell.ring(topics)

    def wake(self, *topics: str) -> None:
        """Wake the services of this process only: where it goes on with its own work, others would only race for it."""
        for topic in topics:
            self._wake(topic)

    def wake_all(self) -> None:
        """Wake every service of this process, for instance to stop."""
        for event in self._all:
            event.set()

    def _wanted(self) -> list[str]:
        return [topic for topic in TOPICS if self._waiting.get(topic)]

    def _hear(self, topic: str) -> None:
        if not self.patience:
            self._wake(topic)
        elif topic not in self._put_off:
            self._put_off.add(topic)
            asyncio.get_running_loop().call_later(self.patience, self._wake_put_off, topic)

    def _wake_put_off(self, topic: str) -> None:
        self._put_off.discard(topic)
        self._wake(topic)

    def _wake(self, topic: str) -> None:
        for event in self._waiting.get(topic, ()):
            event.set()
