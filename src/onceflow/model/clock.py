"""The process's own clocks. What decides anything is the database's clock; these measure and label."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def utcnow() -> datetime:
    """The wall clock as an aware UTC time, for logs and file names; never for a decision about leases or order."""
    return datetime.now(UTC)


def cpu_seconds() -> float:
    """Seconds for which this thread has computed: a limit by them is the same on a busy machine."""
    return time.thread_time()


def boot_seconds() -> float:
    """Seconds since boot, counted through suspends, so that a frozen process sees how long it was away."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
