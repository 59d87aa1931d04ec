"""The parse guest: loads DAG files, each in a child forked from this warm process, and answers with their specs.

    python -m onceflow.parse.load

Requests and replies are framed JSON (`guest/channel.py`) on stdin and stdout, one reply per request, in order.

    request   {"path": relative to the folder, "folder": absolute, "timeout": seconds}
    reply     {"kind": "file", …FileSpec} or {"kind": "failure", …ParseFailure}

A file that runs too long is killed, with the line it was at; one that ends its process is a failure like any other.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import onceflow
from onceflow.guest import lifeline
from onceflow.guest.channel import pack, recv, send, write
from onceflow.guest.loader import load_file
from onceflow.model.dagspec import FileSpec, ParseFailure
from onceflow.model.errors import GuestError
from onceflow.model.serialize import to_json
from onceflow.model.text import storable
from onceflow.parse.failure import failure_of, last_line_in
from onceflow.parse.folder import digest
from onceflow.sdk.spec import Compiler

ALWAYS = ("cronsim", "onceflow.sdk.bash", "onceflow.compat.finder", "json", "logging", "zoneinfo")
WARM = ("pendulum", "asyncio")  # imported here once a file was seen to use them
CAPTURED = 16 * 1024  # of what a file prints, the end that a failure shows
SILENCED = 71  # exit code of a child that cannot answer
GRACE = 5.0  # the child ends itself this long after its time, should this process be gone


@dataclass(frozen=True)
class Job:
    """One file to load: its path in the folder, its content and that content's hash, the seconds it may take."""

    path: str
    folder: Path
    content: bytes
    source_hash: str
    timeout: float


def main() -> None:
    """Serve requests until stdin closes."""
    lifeline.die_with_parent(os.getppid())
    requests, replies = _take_streams()
    _warm_up()
    while True:
        try:
            request = recv(requests)
        except EOFError:
            return
        send(replies, reply_to(request))


def reply_to(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request."""
    path, folder, timeout = request["path"], Path(request["folder"]).absolute(), float(request.get("timeout", 30.0))
    try:
        content = (folder / path).read_bytes()
    except OSError as error:
        return _failure(ParseFailure(path, "", "unreadable", f"{error.strerror or error}", path))
    source_hash = digest(content)
    if not may_hold_dags(content):
        return {"kind": "file"} | to_json(FileSpec(path, source_hash))
    return _in_child(Job(path, folder, content, source_hash, timeout))


def may_hold_dags(content: bytes) -> bool:
    """Whether a file's text mentions DAGs or assets at all; others are not executed. Airflow's safe mode."""
    lower = content.lower()
    return (b"dag" in lower or b"asset" in lower) and (b"onceflow" in lower or b"airflow" in lower)


def _take_streams() -> tuple[int, int]:
    """Keep stdin and stdout for the protocol; what anybody prints goes to stderr."""
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, replies


def _in_child(job: Job) -> dict[str, Any]:
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as printed:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            lifeline.die_with_parent(parent)
            os.close(reader)
            _child(job, writer, printed)
        os.close(writer)
        answer, failure = None, _ended
        try:
            answer = _await(reader, job.timeout)
            if answer is None and not _ends_by_itself(pid):
                failure = _fell_silent
        except TimeoutError:
            failure = _late
            _dump_stack(pid)
        finally:
            os.close(reader)
            _end_group(pid)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status == SILENCED:
            failure = _fell_silent
        if answer is not None:
            _warm(answer.pop("imported", []))
            return answer
        return _failure(failure(job, status, storable(_tail(printed))))


def _await(reader: int, timeout: float) -> dict[str, Any] | None:
    """The child's answer, or None if it ended without one. Raises TimeoutError."""
    until = time.monotonic() + timeout
    data = bytearray()
    poll = select.poll()
    poll.register(reader, select.POLLIN | select.POLLHUP)
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        left = until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise TimeoutError
        part = os.read(reader, 1 << 20)
        if not part:
            return None
        data += part
    return json.loads(data[4:])


def _dump_stack(pid: int) -> None:
    """Let the child write down where it is."""
    os.kill(pid, signal.SIGUSR1)
    time.sleep(0.05)


def _ends_by_itself(pid: int) -> bool:
    """Whether a child that closed its pipe has ended, or is about to; it stays a zombie."""
    give_up = time.monotonic() + 1
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


def _end_group(pid: int) -> None:
    """Kill the child, which may have ended, and what it started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _child(job: Job, writer: int, printed: IO[bytes]) -> NoReturn:
    """In the child: load the file and answer. Never returns."""
    os.setpgid(0, 0)
    os.dup2(printed.fileno(), 1)
    os.dup2(printed.fileno(), 2)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=False)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, job.timeout + GRACE)
    me = os.getpid()
    answer = _load(job)
    if os.getpid() != me:
        os._exit(0)  # the file forked, and its other process answers
    answer["imported"] = [name for name in WARM if name in sys.modules]
    try:
        write(writer, _packed(job, answer))
    except OSError:
        os._exit(SILENCED)
    os._exit(0)


def _packed(job: Job, answer: dict[str, Any]) -> bytes:
    try:
        return pack(answer)
    except GuestError as error:
        message = f"what the file declares is too large: {error.message}"
        return pack(_failure(ParseFailure(job.path, job.source_hash, "too_large", message, job.path, error.remedy)))


def _load(job: Job) -> dict[str, Any]:
    try:
        loaded = load_file(job.path, job.folder, job.content)
        compiler = Compiler(job.folder)
        spec = compiler.file(job.path, job.source_hash, loaded.dags, loaded.assets, loaded.dropped)
    except BaseException as error:
        return _failure(failure_of(error, job.path, job.folder, job.source_hash))
    others = any(thread is not threading.main_thread() for thread in threading.enumerate())
    return {"kind": "file"} | to_json(spec) | {"starts_threads": others}


def _late(job: Job, _status: int, printed: str) -> ParseFailure:
    """The failure of a child that took too long; it has printed where it was."""
    message = f"loading the file took longer than {job.timeout:g} s"
    remedy = "keep slow work out of the top level of a DAG file; do it inside a task"
    where = last_line_in(printed, job.path, job.folder)
    return ParseFailure(job.path, job.source_hash, "parse_timeout", message, where, remedy, printed)


def _ended(job: Job, status: int, printed: str) -> ParseFailure:
    """The failure of a child that ended without an answer."""
    how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended its process with exit code {status}"
    remedy = "a DAG file must not end the process that loads it"
    return ParseFailure(job.path, job.source_hash, "parse_crash", f"loading the file {how}", job.path, remedy, printed)


def _fell_silent(job: Job, _status: int, printed: str) -> ParseFailure:
    """The failure of a child that lives on and cannot answer any more."""
    message = "loading the file closed the pipe to the process that waits for it"
    remedy = "a DAG file must not close file descriptors that it did not open"
    return ParseFailure(job.path, job.source_hash, "parse_crash", message, job.path, remedy, printed)


def _tail(printed: IO[bytes]) -> str:
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(0, size - CAPTURED))
    return printed.read().decode("utf-8", "replace")


def _failure(failure: ParseFailure) -> dict[str, Any]:
    return {"kind": "failure"} | to_json(failure)


def _warm_up() -> None:
    """Import all that DAG files use of Onceflow, so that the children have it."""
    for name in onceflow.__all__:
        getattr(onceflow, name)
    for module in ALWAYS:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


def _warm(names: list[str]) -> None:
    """Import here what the file imported, so that the next child has it already."""
    for name in names:
        if name not in sys.modules:
            importlib.import_module(name)
            gc.collect()
            gc.freeze()


if __name__ == "__main__":
    main()
