"""Tells sources that watch local paths to look again at once. It only wakes; their polling is the truth.

One watcher thread serves all sources of a process (two, when some watch recursively): the kernel limits watcher
instances, and a thread for each of thousands of triggers would be too many. The thread ends with its last listener.
Where the kernel tells nothing (network file systems, limits reached), sources are merely as slow as their interval.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path, PurePath

STEP_MS = 20  # how often the watcher looks for changes and for a stop; the latency of a wake-up
DEBOUNCE_MS = 100  # changes within it wake once
RETRY_SECONDS = 5.0  # after the kernel refused, or a watched directory has gone


class Listener:
    """A wake-up for one source. `wait` returns early when something below its directories changed."""

    def __init__(self, directories: Iterable[str], *, recursive: bool = False) -> None:
        self.directories = frozenset(os.path.realpath(d) for d in directories)
        self._hub = _HUBS[recursive]
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._hub.add(self)

    async def wait(self, timeout: float, *, at_least: float = 0.0) -> None:
        """Return when a change was noticed since the last wait, or after `timeout` seconds.

        `at_least` seconds pass in any case, so that a place where something changes all the time costs little.
        """
        pause = min(at_least, timeout)
        await asyncio.sleep(pause)
        timeout -= pause
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()
        self._event.clear()

    def wake(self) -> None:
        """Wake the waiter, from any thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._event.set)

    def close(self) -> None:
        """Stop listening."""
        self._hub.remove(self)


class _Hub:
    """The watcher thread over the directories of all its listeners; started anew whenever they change."""

    def __init__(self, *, recursive: bool) -> None:
        self._recursive = recursive
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._thread: threading.Thread | None = None
        self._changed = threading.Event()

    def add(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.add(listener)
            self._changed.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="onceflow-wake", daemon=True)
                self._thread.start()

    def remove(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.discard(listener)
            self._changed.set()

    def _snapshot(self) -> dict[str, list[Listener]]:
        """The listeners by directory; none left ends the thread."""
        with self._lock:
            self._changed.clear()
            by_directory: dict[str, list[Listener]] = {}
            for listener in self._listeners:
                for directory in listener.directories:
                    by_directory.setdefault(directory, []).append(listener)
            if not by_directory:
                self._thread = None
            return by_directory

    def _run(self) -> None:
        while by_directory := self._snapshot():
            try:
                self._watch(by_directory)
            except (OSError, RuntimeError):
                self._changed.wait(RETRY_SECONDS)

    def _watch(self, by_directory: dict[str, list[Listener]]) -> None:
        from watchfiles._rust_notify import RustNotify

        present = [d for d in by_directory if Path(d).is_dir()]
        if not present:
            self._changed.wait(RETRY_SECONDS)
            return
        with RustNotify(present, False, False, 0, self._recursive, True) as notify:
            while not self._changed.is_set():
                changes = notify.watch(DEBOUNCE_MS, STEP_MS, 60_000, self._changed)
                if isinstance(changes, set):
                    _wake_those_above({path for _, path in changes}, by_directory)


def _wake_those_above(paths: set[str], by_directory: dict[str, list[Listener]]) -> None:
    touched = paths | {str(parent) for path in paths for parent in PurePath(path).parents}
    for directory in touched & by_directory.keys():
        for listener in by_directory[directory]:
            listener.wake()


_HUBS = {recursive: _Hub(recursive=recursive) for recursive in (False, True)}
