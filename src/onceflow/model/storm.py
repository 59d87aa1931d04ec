"""How much is too much: what a watcher may tell in a minute before it is a storm. Pure; the clock is given."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE = 60.0


@dataclass(slots=True)
class Rate:
    """Counts in minutes that begin with what comes first. `limit` 0: any number."""

    limit: int
    began: float = float("-inf")
    count: int = 0

    def allows(self, more: int, now: float) -> bool:
        """Whether so many more may come at `now` (seconds), and counts them if so.

        What comes at once comes whole: it is allowed as long as what came before it is below the limit.
        """
        if now - self.began >= MINUTE:
            self.began, self.count = now, 0
        if self.limit and more and self.count >= self.limit:
            return False
        self.count += more
        return True
