"""Wakes a service of this process at times that it knows beforehand; the poll finds what an alarm was not set for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from onceflow.model.clock import boot_seconds


class Alarm:
    """Rings at the earliest of the times that are set, one per name."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._times: dict[int, float] = {}
        self._handle: asyncio.TimerHandle | None = None

    def set(self, judged: Mapping[int, object], seconds: Mapping[int, float]) -> None:
        """Forget the times of `judged`, and set those that are still to come."""
        now = boot_seconds()
        for name in judged:
            self._times.pop(name, None)
        self._times |= {name: now + wait for name, wait in seconds.items()}
        self._next()

    def _next(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._times:
            wait = min(self._times.values()) - boot_seconds()
            self._handle = asyncio.get_running_loop().call_later(max(0.0, wait), self._rang)

    def _rang(self) -> None:
        now = boot_seconds()
        self._times = {name: at for name, at in self._times.items() if at > now}
        self._ring()
        self._next()
