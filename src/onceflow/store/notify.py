"""LISTEN and NOTIFY: they only wake. Polling is the truth, so nothing here may fail a caller.

A NOTIFY is sent off the write path, after the commit it tells of: at once, or if the same topic was rung within the
last 5 ms when those are over. A commit that carries one takes an instance-wide lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

import asyncpg

from onceflow.model.clock import boot_seconds
from onceflow.store import statements
from onceflow.store.database import Database, server_settings, set_all
from onceflow.store.waiting import happens_within

TOPICS = ("delivery", "run", "finish", "task", "watcher", "dag", "canary")
PREFIX = "onceflow_"
SPACING = 0.005


async def notify_once(database: Database, *topics: str) -> None:
    """Wake the processes that wait for one of the topics, once; for commands, which send one and end."""
    await database.execute("wakeups/notify", [PREFIX + t for t in topics], "")


class Bell:
    """One connection that listens to the topics that matter here and rings for others, with reconnection."""

    def __init__(
        self,
        url: str,
        sender: str,
        heard: Callable[[str], None],
        wanted: Callable[[], Collection[str]],
        *,
        lease_seconds: float,
        kind: str,
    ) -> None:
        """`heard` is called with a topic when another process rings it; `wanted` says which topics matter here."""
        self._url = url
        self._sender = sender
        self._heard = heard
        self._wanted = wanted
        self._settings = server_settings(f"{kind} wake-ups", lease_seconds, hot=False)
        self._due: set[str] = set()
        self._rung: dict[str, float] = {}
        self._ring = asyncio.Event()

    def ring(self, topics: Iterable[str]) -> None:
        """Wake other processes soon; returns at once."""
        self._due.update(topics)
        self._ring.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Listen and ring until `stop`; a lost connection is opened again."""
        while not stop.is_set():
            try:
                await self._connected(stop)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                await happens_within(stop, 1.0)

    async def _connected(self, stop: asyncio.Event) -> None:
        connection = await asyncpg.connect(self._url, timeout=5)
        try:
            await set_all(connection, self._settings, local=False)
            listening: set[str] = set()
            while not stop.is_set() and not connection.is_closed():
                for topic in set(self._wanted()) - listening:
                    await connection.add_listener(PREFIX + topic, self._on_notification)
                    listening.add(topic)
                    self._heard(topic)  # whatever was missed while not listening
                if not await happens_within(self._ring, 1.0):
                    continue
                self._ring.clear()
                if due := self._take_due():
                    await connection.execute(statements.text("wakeups/notify"), [PREFIX + t for t in due], self._sender)
                if self._due:
                    await asyncio.sleep(SPACING / 2)
                    self._ring.set()
        finally:
            connection.terminate()

    def _take_due(self) -> set[str]:
        """The topics to ring now: those not rung within the last SPACING seconds."""
        now = boot_seconds()
        due = {t for t in self._due if now - self._rung.get(t, 0.0) >= SPACING}
        self._due -= due
        self._rung.update(dict.fromkeys(due, now))
        return due

    def _on_notification(self, _connection: object, _pid: int, channel: str, sender: object) -> None:
        if sender != self._sender:
            self._heard(channel.removeprefix(PREFIX))
