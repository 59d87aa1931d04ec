"""What a file source remembers: pure bookkeeping, written as a cursor."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable
from typing import Any

from onceflow.sources._files_scan import State

WIDTH = 9  # characters of base 64 per remembered state: 54 bits


def mark(path: str, identity: str) -> str:
    """A file in a state, as it is remembered."""
    raw = hashlib.blake2b(f"{path}\0{identity}".encode(), digest_size=8).digest()
    return urlsafe_b64encode(raw).decode()[:WIDTH]


class Memory:
    """The states that were told, oldest first, and, where removals are told, the files that are there."""

    def __init__(self, marks: Iterable[str] = (), present: dict[str, State] | None = None) -> None:
        self._marks = dict.fromkeys(marks)
        self.present = present

    @classmethod
    def read(cls, cursor: Any, with_present: bool) -> Memory:
        """The memory that a cursor holds; None is an empty one."""
        stored = cursor or {}
        seen = stored.get("seen", "")
        marks = [seen[i : i + WIDTH] for i in range(0, len(seen), WIDTH)]
        present = {path: State(*numbers) for path, numbers in stored.get("present", {}).items()}
        return cls(marks, present if with_present else None)

    def write(self, limit: int, in_use: Collection[str]) -> dict[str, Any]:
        """The cursor, with at most `limit` states: the oldest that no file is in (`in_use` are) are forgotten."""
        surplus = len(self._marks) - limit
        for old in [m for m in self._marks if m not in in_use][: max(surplus, 0)]:
            del self._marks[old]
        cursor: dict[str, Any] = {"seen": "".join(self._marks)}
        if self.present is not None:
            cursor["present"] = {path: [state.size, state.mtime_ns] for path, state in self.present.items()}
        return cursor

    def knows(self, marked: str) -> bool:
        return marked in self._marks

    def learn(self, path: str, state: State, marked: str) -> bool:
        """Remember a file's state; False when it was known."""
        if self.present is not None:
            self.present[path] = state
        if marked in self._marks:
            return False
        self._marks[marked] = None
        return True

    def forget(self, path: str) -> State:
        """A file is not there any more; its last state."""
        assert self.present is not None
        return self.present.pop(path)

    def gone(self, there: Collection[str]) -> list[str]:
        """The files that were there and now are not; none where removals are not told."""
        return [path for path in self.present or () if path not in there]


class Settling:
    """Since when paths have been in the states they are in. A state of None: the file is not there."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[str, tuple[State | None, float]] = {}

    def settled(self, states: dict[str, State | None], now: float) -> list[str]:
        """Those of the changed paths that have not changed again for long enough; the others are waited for."""
        before, self._since = self._since, {}
        ready = []
        for path, state in states.items():
            at = before[path][1] if path in before and before[path][0] == state else now
            if now - at >= self._seconds:
                ready.append(path)
            else:
                self._since[path] = (state, at)
        return ready

    def due(self, now: float) -> float | None:
        """Seconds until the first path that is waited for may be ready; None when none is."""
        return max(0.0, min(at for _, at in self._since.values()) + self._seconds - now) if self._since else None
