"""A guest process of the triggerer, seen from the host: start, talk, watch over its loop, end."""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onceflow.config import Settings, child_environment
from onceflow.model.clock import boot_seconds
from onceflow.runtime.frames import Frames

MARK_BYTES = 8
BLOCKED_SECONDS = 2.0
START_SECONDS = 30.0
DUMP_SECONDS = 0.2
STACK_BYTES = 16_384


class GuestProcess:
    """One guest. `on_message` gets what it says; `on_end` is called when it has ended by itself."""

    def __init__(
        self, settings: Settings, on_message: Callable[[dict[str, Any]], None], on_end: Callable[[], None]
    ) -> None:
        self._on_message = on_message
        mark, self._stacks = _scratch_file(), _scratch_file()
        os.write(mark, bytes(MARK_BYTES))
        self._mark = mmap.mmap(mark, MARK_BYTES)
        ours, theirs = socket.socketpair()
        shared = [theirs.fileno(), mark, self._stacks]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "onceflow.triggerer.guest", *map(str, shared), str(settings.dags_folder)],
            stdin=subprocess.DEVNULL,
            pass_fds=shared,
            env=child_environment(),
        )
        theirs.close()
        os.close(mark)
        self._frames = Frames(ours, self._heard, on_end)
        self._alive_at = boot_seconds() + START_SECONDS
        self.pid = self._process.pid

    def send(self, **message: Any) -> None:
        self._frames.send(message)

    @property
    def blocked(self) -> bool:
        """Its loop has not turned for BLOCKED_SECONDS."""
        return boot_seconds() - self._alive_at > BLOCKED_SECONDS

    @property
    def marked(self) -> int:
        """The watcher whose code runs now, or ran when the process ended; 0 = none."""
        return int.from_bytes(self._mark[:MARK_BYTES], "big")

    async def dump_stack(self) -> str:
        """Where its main thread is now."""
        os.kill(self.pid, signal.SIGUSR1)
        await asyncio.sleep(DUMP_SECONDS)
        return os.pread(self._stacks, STACK_BYTES, 0).decode(errors="replace")

    def end(self) -> int:
        """Kill it, if it still runs; returns its exit code."""
        self._frames.close()
        self._process.kill()
        code = self._process.wait()
        self._mark.close()
        os.close(self._stacks)
        return code

    def exit_code(self) -> int:
        """Its exit code. One that only closed its end of the socket is killed: it can be heard no more."""
        self._process.kill()
        return self._process.wait()

    def _heard(self, message: dict[str, Any]) -> None:
        self._alive_at = boot_seconds()
        self._on_message(message)


def _scratch_file() -> int:
    """A nameless file, to be shared with a guest."""
    descriptor, path = tempfile.mkstemp()
    Path(path).unlink()
    return descriptor
