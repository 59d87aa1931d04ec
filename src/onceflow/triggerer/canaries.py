"""Synthetic changes, on the guest's side: made now and then, noticed when a trigger looks at its source the next time.

The source knows nothing of them. What they measure is everything behind it: the wait for the next look, the way through
the guest, the host's queue and the database, and the schedulers' work.
"""

from __future__ import annotations

from dataclasses import dataclass

from onceflow.model.clock import boot_seconds


@dataclass
class Canary:
    """One watcher's: made `every` so many seconds; `made_at` is None while there is none to be noticed."""

    term: int
    every: float
    next_at: float
    made_at: float | None = None


class Canaries:
    """Those of all triggers of a guest. Times are boot time, which the host's process shares."""

    def __init__(self) -> None:
        self._of: dict[int, Canary] = {}

    def add(self, watcher: int, term: int, every: float | None) -> None:
        """Make one at once, and then every so many seconds."""
        if every is not None:
            self._of[watcher] = Canary(term, every, boot_seconds())

    def remove(self, watcher: int) -> None:
        self._of.pop(watcher, None)

    def make(self) -> None:
        """Make those that are due."""
        now = boot_seconds()
        for canary in self._of.values():
            if canary.made_at is None and canary.next_at <= now:
                canary.made_at, canary.next_at = now, now + canary.every

    def noticed(self, watcher: int) -> dict[str, float] | None:
        """What to tell the host when a watcher has looked; None if it had none to notice."""
        canary = self._of.get(watcher)
        if canary is None or canary.made_at is None:
            return None
        made_at, canary.made_at = canary.made_at, None
        return {"canary": watcher, "term": canary.term, "made_at": made_at, "noticed_at": boot_seconds()}
