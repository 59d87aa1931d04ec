"""Shell commands for tasks: output goes to the task's log line by line, the last line is kept."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping

from onceflow.config import child_environment


def run_shell(
    command: str, env: Mapping[str, str] | None, append: bool, cwd: str | None, encoding: str = "utf-8"
) -> tuple[str, int]:
    """Run a command with bash. Returns the last line of its output and its exit code (negative: the signal)."""
    environment = child_environment(env) if env is None or append else dict(env)
    process = subprocess.Popen(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env=environment,
        start_new_session=True,
    )
    with process:
        try:
            return _echoed(process, encoding), process.wait()
        finally:
            if process.poll() is None:
                _end(process)


def _echoed(process: subprocess.Popen[bytes], encoding: str) -> str:
    """Print what the command prints; its last line."""
    last = ""
    for line in process.stdout or ():
        last = line.decode(encoding, "replace").rstrip("\r\n")
        print(last, flush=True)
    return last


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and what it started: asked first, killed after 5 s."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sent)
        except ProcessLookupError:
            return
        try:
            process.wait(5)
            return
        except subprocess.TimeoutExpired:
            continue
