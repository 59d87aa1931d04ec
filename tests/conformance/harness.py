"""Describes the sources that the conformance suite runs on, and counts what they leave behind."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from onceflow.sdk.trigger import BaseEventTrigger


class Source(ABC):
    """A source under test: something real that changes, breaks and is repaired."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.stack = stack  # what it starts is entered here

    async def start(self) -> None:
        """Set up what is watched."""

    @abstractmethod
    def trigger(self) -> BaseEventTrigger:
        """A trigger that watches it, looking often."""

    @abstractmethod
    async def change(self) -> None:
        """Make exactly one change."""

    @abstractmethod
    async def disturb(self) -> None:
        """Let something happen that is no change."""

    @abstractmethod
    async def break_down(self) -> None:
        """Make it impossible to look."""

    @abstractmethod
    async def repair(self) -> None:
        """Undo `break_down`."""


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def children() -> set[int]:
    """This process's children, the dead that nobody has waited for included."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # the thread ended just now
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def own_threads() -> set[str]:
    """Threads that sources started, but for those of their pool, which stay."""
    names = {thread.name for thread in threading.enumerate()}
    return {name for name in names if name.startswith("onceflow-") and not name.startswith("onceflow-source")}
