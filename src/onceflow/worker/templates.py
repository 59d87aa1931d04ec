"""Keeps templates warm and starts guests from them: one base template, one template per DAG file's content.

The least recently used templates go; content that changed has another hash and so gets a template of its own. A file
that starts threads when it is loaded, or a task with isolation "fresh", runs in a fresh interpreter each time.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onceflow.config import Settings, child_environment
from onceflow.guest import orders
from onceflow.runtime.frames import Frames
from onceflow.runtime.log import get_logger

KEPT = 16

log = get_logger("onceflow.worker")

Ended = Callable[[int | None], None]
"""Gets a guest's exit code, negative for a signal; None if its template was lost, and it with it."""


class FileTemplate:
    """A process that has loaded one DAG file and forks guests. `ready`: "fork", "fresh", or the error of loading it."""

    def __init__(self, control: socket.socket) -> None:
        self.ready: asyncio.Future[str | dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._modules: dict[str, int] = {}
        self._waiting: dict[int, Ended] = {}
        self._frames = Frames(control, self._on_message, self._on_close)

    @property
    def lost(self) -> bool:
        """The process has ended, though we did not end it."""
        return not self._frames.open

    @property
    def busy(self) -> bool:
        return bool(self._waiting) or not self.ready.done()

    def stale(self, own: str) -> bool:
        """Whether a module that the file imports from the DAG folder has changed; `own` is the file itself."""
        return any(path != own and _changed_at(path) != then for path, then in self._modules.items())

    def start(self, number: int, order: dict[str, Any], guest_end: socket.socket, ended: Ended) -> None:
        """Fork a guest, known by `number` from now on; `ended` is told how it ended."""
        if self.lost:
            ended(None)
            return
        self._waiting[number] = ended
        self._frames.send_bytes(orders.pack(number, order), [guest_end.fileno()])

    def signal(self, number: int, signum: int) -> None:
        """Send a signal to this guest and all it started; its process is known to the template alone."""
        self._frames.send_bytes(orders.pack_signal(number, signum))

    def close(self) -> None:
        self._frames.close()

    def give_up(self, error: dict[str, Any]) -> None:
        """It could not load the file in time."""
        self.ready.set_result(error)
        self.close()

    def _on_message(self, message: dict[str, Any]) -> None:
        if "ended" in message:
            self._waiting.pop(message["ended"])(message["status"])
        elif "failed" in message:
            self.ready.set_result(message["failed"])
        else:
            self._modules = message["modules"]
            self.ready.set_result("fork" if message["ready"] else "fresh")

    def _on_close(self) -> None:
        if not self.ready.done():
            text = "the process that loads the DAG file ended without a word"
            self.ready.set_result({"type": "Crashed", "message": text, "traceback": ""})
        waiting, self._waiting = self._waiting, {}
        for ended in waiting.values():
            ended(None)  # guests die with their template


class Templates:
    """Starts guests; see the module's docstring."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._base: subprocess.Popen[bytes] | None = None
        self._control: Frames | None = None
        self._files: OrderedDict[str, FileTemplate] = OrderedDict()
        self._retired: list[FileTemplate] = []
        self._count = 0

    def file(self, source_hash: str, order: dict[str, Any]) -> FileTemplate:
        """The template for this content of a DAG file, started if there is none; `order`: path, folder, source."""
        template = self._files.get(source_hash)
        if template is not None and template.lost:
            template = None
        if template is not None and template.stale(str(Path(order["folder"], order["path"]))):
            self._retired.append(template)
            template = None
        if template is None:
            template = self._files[source_hash] = self._open(order)
        self._files.move_to_end(source_hash)
        self._drop_old()
        return template

    def forget(self, source_hash: str) -> None:
        """Do not use this template again."""
        self._files.pop(source_hash, None)

    def close(self) -> None:
        """End all templates; their guests die with them."""
        for template in [*self._files.values(), *self._retired]:
            template.close()
        if self._control is not None:
            self._control.close()
        if self._base is not None:
            self._base.kill()
            self._base.wait()

    def _open(self, order: dict[str, Any]) -> FileTemplate:
        if self._control is None:
            self._start_base()
        ours, theirs = socket.socketpair()
        self._count += 1
        assert self._control is not None
        self._control.send_bytes(orders.pack(self._count, order), [theirs.fileno()])
        theirs.close()
        template = FileTemplate(ours)
        limit = self._settings.parse_timeout
        timer = asyncio.get_running_loop().call_later(limit, self._too_late, self._count, template)
        template.ready.add_done_callback(lambda _: timer.cancel())
        return template

    def _too_late(self, number: int, template: FileTemplate) -> None:
        if self._control is not None:
            self._control.send_bytes(orders.pack_signal(number, signal.SIGKILL))
        template.give_up(took_too_long(self._settings))

    def _start_base(self) -> None:
        ours, theirs = socket.socketpair()
        self._base = subprocess.Popen(
            [sys.executable, "-m", "onceflow.worker.guest", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=child_environment({"LD_BIND_NOW": "1"}),  # bound once here, not again in every guest
        )
        theirs.close()
        self._control = Frames(ours, lambda _: None, self._base_lost)

    def _base_lost(self) -> None:
        log.error("the base template ended; starting another one at the next task")
        if self._base is not None:
            self._base.wait()
        self._base = self._control = None
        self._files.clear()
        self._retired.clear()

    def _drop_old(self) -> None:
        for template in [r for r in self._retired if not r.busy]:
            self._retired.remove(template)
            template.close()
        idle = [h for h, t in self._files.items() if not t.busy]
        for source_hash in idle[: max(0, len(self._files) - KEPT)]:
            self._files.pop(source_hash).close()


def took_too_long(settings: Settings) -> dict[str, str]:
    """The error of a file that does not come to the end of its top level."""
    message = f"loading the DAG file took longer than {settings.parse_timeout:g} s"
    return {"type": "LoadTimeout", "message": message, "traceback": ""}


async def start_fresh(order: dict[str, Any], guest_end: socket.socket) -> asyncio.subprocess.Process:
    """Start one attempt in a fresh interpreter. Raises OSError when the system refuses another process."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "onceflow.worker.guest",
            "fresh",
            str(guest_end.fileno()),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=[guest_end.fileno()],
            env=child_environment(),
            start_new_session=True,  # so that it can be killed while it loads, too, with all that it started
        )
    finally:
        guest_end.close()
    assert process.stdin is not None
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.close()
    return process


def _changed_at(path: str) -> int:
    """When the file was changed last, in nanoseconds; 0 if it is gone."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def source_file(settings: Settings, source_hash: str) -> Path:
    """Where the bytes of a DAG file with this hash are kept for templates."""
    return settings.home / "cache" / "sources" / f"{source_hash}.py"


def keep_source(path: Path, content: bytes) -> None:
    """Write the file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)
