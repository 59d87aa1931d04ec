"""The parent of role children: starts them, restarts the dead, frees at once what those owned, stops them all.

A child whose loop stands still (a call that does not return, a frozen process) is killed, and then it is dead, too.

It is small on purpose: no event loop, no driver, no user code. SIGTERM and SIGINT stop the children, with SIGKILL for
those that take longer than STOP_SECONDS. When the parent itself is killed its children die with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from onceflow.config import Settings, child_environment, to_values
from onceflow.model.clock import boot_seconds

STOP_SECONDS = 7.0
STEADY_SECONDS = 30.0
AWAY_SECONDS = 5.0
"""A parent that did not look for so long was frozen itself, and perhaps its children were: silence proves nothing."""
LONGEST_PAUSE = 30.0
MISCONFIGURED = 2
"""Exit code of a child that no restart helps: it has said which setting is wrong. At its first start that ends all."""
MODULES = {
    "scheduler": "onceflow.scheduler.main",
    "triggerer": "onceflow.triggerer.main",
    "worker": "onceflow.worker.main",
    "dag-processor": "onceflow.parse.main",
    "api-server": "onceflow.api.main",
}
TALKING = frozenset({"api-server", "dag-processor"})
"""Kinds that tell their parent when they are ready."""


@dataclass
class Child:
    """One role child, through its restarts."""

    kind: str
    process: subprocess.Popen[bytes] | None = None
    line: socket.socket | None = None
    heard: float = 0.0
    id: UUID = field(default_factory=uuid4)
    started: float = 0.0
    starts: int = 0
    deaths: int = 0
    start_at: float = 0.0


class Supervisor:
    """Runs the given kinds of role (one child each; a kind may occur several times) until told to stop."""

    def __init__(self, settings: Settings, kinds: Sequence[str]) -> None:
        self.settings = settings
        self._children = [Child(kind) for kind in kinds]
        self._stopping = False
        self._code = 0
        self._looked = boot_seconds()
        self._helpers: list[subprocess.Popen[bytes]] = []
        self.on_message: Callable[[dict[str, Any]], None] = lambda _: None
        """Called with what a child says: one JSON object a line on its standard output."""
        self.watch: Callable[[], None] = lambda: None
        """Called about once a second, for what else the parent owns."""

    def run(self) -> int:
        """Start the children and look after them until SIGTERM or SIGINT; returns the exit code."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self._stop)
        try:
            while not self._stopping:
                self._start_due()
                self._wait(wake_read)
                self._kill_silent()
                self._bury_dead()
                self.watch()
        except BaseException:
            self._stop_all()
            raise
        return self._stop_all()

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _wait(self, wake: int) -> None:
        outputs = [c.process.stdout for c in self._children if c.process and c.process.stdout]
        soonest = min((c.start_at for c in self._children if c.process is None), default=float("inf"))
        timeout = max(0.0, min(1.0, soonest - boot_seconds()))
        lines = {c.line: c for c in self._children if c.line}
        ready, _, _ = select.select([wake, *outputs, *lines], [], [], timeout)
        for source in ready:
            if source == wake:
                os.read(wake, 4096)
            elif source in lines:
                self._hear(lines[source])
            else:
                self._read_line(source)

    def _hear(self, child: Child) -> None:
        assert child.line is not None
        try:
            heard = child.line.recv(4096)
        except ConnectionResetError:
            heard = b""
        if heard:
            child.heard = boot_seconds()
        else:  # it ends
            child.line.close()
            child.line = None

    def _kill_silent(self) -> None:
        now, limit = boot_seconds(), self.settings.hang_seconds
        was_away, self._looked = now - self._looked > AWAY_SECONDS, now
        for child in self._children:
            if was_away:
                child.heard = now
            elif child.process is not None and now - child.heard > limit:
                print(f"{child.kind} has stood still for {limit:g} s: killing it", file=sys.stderr, flush=True)
                child.process.kill()
                child.process.wait()

    def _read_line(self, output: Any) -> None:
        line = output.readline()
        if line:
            self.on_message(json.loads(line))
        else:
            for child in self._children:
                if child.process and child.process.stdout is output:
                    child.process.stdout = None

    def _start_due(self) -> None:
        for child in self._children:
            if child.process is None and child.start_at <= boot_seconds() and not self._stopping:
                self._start(child)

    def _start(self, child: Child) -> None:
        child.id = uuid4()
        child.started = child.heard = boot_seconds()
        child.starts += 1
        child.line, theirs = socket.socketpair()
        with theirs:
            child.process = subprocess.Popen(
                [sys.executable, "-m", MODULES[child.kind]],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE if child.kind in TALKING else None,
                env=child_environment(),
                start_new_session=True,
            )
        values = {"settings": to_values(self.settings), "process": str(child.id)}
        with suppress(BrokenPipeError, ConnectionResetError):  # it died already; its exit code tells
            child.line.sendall(json.dumps(values).encode() + b"\n")

    def _bury_dead(self) -> None:
        self._helpers = [h for h in self._helpers if h.poll() is None]
        dead = []
        for child in self._children:
            if child.process is not None and child.process.poll() is not None:
                self._report(child, child.process.returncode)
                dead.append(str(child.id))
                if child.line:
                    child.line.close()
                child.process = child.line = None
        if dead:
            self._release(dead)

    def _report(self, child: Child, code: int) -> None:
        lived = boot_seconds() - child.started
        child.deaths = 1 if lived > STEADY_SECONDS else child.deaths + 1
        pause = 0.0 if child.deaths <= 1 else min(LONGEST_PAUSE, 0.1 * 2 ** min(child.deaths, 12))
        child.start_at = boot_seconds() + pause
        if code == MISCONFIGURED and child.starts == 1:
            self._code, self._stopping = code, True
            print(f"{child.kind} cannot work as it is set up: stopping", file=sys.stderr, flush=True)
            return
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        print(
            f"{child.kind} ended ({how}) after {lived:.1f} s; next start in {pause:.1f} s", file=sys.stderr, flush=True
        )

    def _release(self, dead: list[str]) -> None:
        helper = subprocess.Popen(
            [sys.executable, "-m", "onceflow.runtime.release"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
        )
        assert helper.stdin is not None
        with suppress(BrokenPipeError), helper.stdin as line:  # it died already: the leases run out
            line.write(json.dumps({"settings": to_values(self.settings), "dead": dead}).encode())
        self._helpers.append(helper)

    def _stop_all(self) -> int:
        running = [c.process for c in self._children if c.process is not None]
        for process in running:
            process.terminate()
        give_up = boot_seconds() + STOP_SECONDS
        code = self._code
        for process in running:
            try:
                process.wait(max(0.0, give_up - boot_seconds()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code = code or 1
        for helper in self._helpers:
            helper.kill()
            helper.wait()
        return code


def run_role(kind: str, settings: Settings) -> int:
    """Run one role in the foreground, as `onceflow <kind>` does: a small parent and its child."""

    def announce(message: dict[str, Any]) -> None:
        print(f"ready {message['ready']}" if "ready" in message else "ready", flush=True)

    supervisor = Supervisor(settings, [kind])
    supervisor.on_message = announce
    return supervisor.run()
