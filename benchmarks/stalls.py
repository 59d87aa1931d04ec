"""Notices when the whole machine stood still or starved us: what was measured meanwhile says nothing."""

from __future__ import annotations

import threading
import time
from types import TracebackType

STEP = 0.1
LEAST = 0.5


class Stalls:
    """While entered, collects in `seconds` how long each stall of more than LEAST seconds was."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._stop.wait(STEP):
            now = time.monotonic()
            if now - before - STEP > LEAST:
                self.seconds.append(round(now - before, 1))
            before = now
