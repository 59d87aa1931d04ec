"""The embedded PostgreSQL: one server per home, owned by one process.

    stopped ──start()──▶ starting ──ready──▶ running ──stop()──▶ stopped
                                                │ owner ends in any way: the kernel sends SIGINT, a fast shutdown
                                                │ server is killed: check() is False, start() recovers it

What holds when something fails:

- Two owners: `owner.lock` is locked by the owner for its life; a second one gets ConflictError and may `attach`.
- Owner killed: on Linux the server gets the parent-death signal and stops cleanly. It follows the *thread* that spawned
  the server, so only the main thread may start it. Elsewhere the next start stops what `postmaster.pid` names.
- Server killed: its lock file stays. The file counts only while its pid is a live PostgreSQL on this data, so neither a
  zombie nor a pid that is somebody else's now keeps us from starting; its orphans do, through the shared memory
  they hold, and are waited for. Nothing committed is lost: `fsync` and `synchronous_commit` are on.
- Crash while the cluster is created: it had no name yet, the next start begins anew.

Only the standard library is used: the small parent process of `onceflow standalone` holds this.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from onceflow.model.clock import boot_seconds
from onceflow.model.errors import ConflictError, UnreachableError, UnsupportedError
from onceflow.runtime.postgres_binaries import ENVIRONMENT, Binaries, Identity, choose_identity, find_binaries
from onceflow.runtime.postgres_cluster import ensure_cluster, write_settings
from onceflow.runtime.postgres_place import PORT, Place

START_LIMIT = 120.0  # recovery after a crash reads up to 1 GB of log; an idle start takes 0.1 s
ORPHAN_LIMIT = 10.0  # processes of a killed server end by themselves well within this
# Fast (10 ms as a rule), immediate, by force. Short, because `standalone` stops within 10 s, roles first; what a
# shutdown could not finish the next start recovers.
STOP_LADDER = ((signal.SIGINT, 2.5), (signal.SIGQUIT, 0.5), (signal.SIGKILL, 2.0))
POLL = 0.005
HELD_BY_ORPHANS = "pre-existing shared memory block"  # in the refusal that passes by itself


class EmbeddedPostgres:
    """The PostgreSQL server of one home, owned by this process; a context manager."""

    def __init__(self, home: Path, bindir: Path | None = None) -> None:
        """`bindir` is the setting `pg_bindir`: where the server's programs are, if not where we would look."""
        self._place = Place(home)
        self._bindir = bindir
        self._lock: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""

    @property
    def pid(self) -> int | None:
        """The postmaster's process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def url(self) -> str:
        """The address of the database, as `start` returned it."""
        return self._url

    def start(self) -> str:
        """Start the server, after creating or recovering what is needed; the address of its database.

        A running server is left alone, a dead one started again. Raises ConflictError if another process owns it,
        UnsupportedError if there is no fitting PostgreSQL, UnreachableError with PostgreSQL's own words if it failed.
        """
        if self.pid:
            return self._url
        if threading.current_thread() is not threading.main_thread():
            raise UnsupportedError(
                "the embedded PostgreSQL was to be started outside the main thread",
                remedy="start it in the main thread: the server ends with the thread that started it",
            )
        try:
            self._place.make()
            self._take_lock()
            self._url = self._start_server()
        except PermissionError as error:
            self.stop()
            raise ConflictError(
                f"this home cannot be used by user id {os.geteuid()}: {error}",
                where=str(self._place.home),
                remedy="start it as the user the home belongs to, or use another home",
            ) from error
        except OSError as error:
            self.stop()
            raise UnreachableError(
                f"the embedded PostgreSQL cannot be prepared: {error}",
                where=str(self._place.home),
                remedy="see that the disk has space and can be written to, or use another home",
            ) from error
        except BaseException:
            self.stop()
            raise
        return self._url

    def stop(self) -> None:
        """Stop the server cleanly, within seconds in any case, and give up the ownership."""
        if process := self._process:
            _end(process.pid, lambda: process.poll() is not None)
            self._process = None
            self._place.drop_socket_folder()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def check(self) -> bool:
        """Whether the server lives; the owner asks every few seconds. Keeps the server's log bounded on the way."""
        self._place.bound_log()
        return self.pid is not None

    def __enter__(self) -> EmbeddedPostgres:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        path = self._place.lock
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 32).decode() or "unknown"
            os.close(descriptor)
            raise ConflictError(
                f"the embedded PostgreSQL of this home is owned by process {owner}",
                where=str(self._place.home),
                remedy="stop that process, or use another home",
            ) from None
        os.truncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._lock = descriptor

    def _start_server(self) -> str:
        binaries = find_binaries(self._bindir)
        identity = choose_identity(binaries)
        place = self._place
        _end_leftover(place)
        sockets = place.socket_folder()
        place.forget_postmaster(sockets)
        ensure_cluster(place, binaries, identity)
        write_settings(place, binaries.major)
        place.bound_log()
        deadline = boot_seconds() + ORPHAN_LIMIT
        while refusal := self._attempt(binaries, identity, sockets):
            if HELD_BY_ORPHANS not in refusal or boot_seconds() > deadline:
                raise UnreachableError(
                    f"PostgreSQL did not start: {refusal}", where=str(place.log), remedy="see its log for the cause"
                )
            time.sleep(10 * POLL)
        return place.url(sockets)

    def _attempt(self, binaries: Binaries, identity: Identity, sockets: Path) -> str:
        """Spawn the server and wait until it accepts connections; "" then, or why it ended instead."""
        place = self._place
        settings = {
            "config_file": place.config,
            "hba_file": place.access,
            "listen_addresses": "",
            "port": PORT,
            "unix_socket_directories": f'"{str(sockets).replace(chr(34), chr(34) * 2)}"',
            "unix_socket_permissions": "0700",
            "logging_collector": "off",
        }
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = identity.command(
            binaries.folder / "postgres", "-D", str(place.data), *arguments, end_signal=signal.SIGINT
        )
        log = os.open(place.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            said_before = os.fstat(log).st_size
            self._process = process = subprocess.Popen(
                command,
                env=ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C in the terminal is for the owner, which stops the server last
            )
        finally:
            os.close(log)
        return self._await_ready(process, said_before)

    def _await_ready(self, process: subprocess.Popen[bytes], said_before: int) -> str:
        def answered() -> bool:
            found = self._place.postmaster()
            return process.poll() is not None or bool(found and found.ready and found.pid == process.pid)

        if not _wait(answered, START_LIMIT):
            return f"it was not ready after {START_LIMIT:.0f} s"
        if process.poll() is None:
            return ""
        with self._place.log.open(errors="replace") as log:
            log.seek(said_before)
            last_words = log.read().strip().splitlines()[-6:]
        return "\n".join(last_words) or f"it ended with status {process.returncode}"


def attach(home: Path) -> str | None:
    """The address of the embedded server that runs for this home, whoever owns it; None if none is ready.

    Raises UnreachableError if the home is another user's.
    """
    place = Place(home)
    try:
        found = place.postmaster()
        return place.url(found.socket_folder) if found and found.ready and found.running else None
    except PermissionError as error:
        raise UnreachableError(
            "the embedded PostgreSQL of this home is another user's", where=str(home), remedy="ask as that user"
        ) from error


def find_bindir(bindir: Path | None = None) -> Path:
    """The folder with the server's programs that `EmbeddedPostgres` would use; see `find_binaries`."""
    return find_binaries(bindir).folder


def _end_leftover(place: Place) -> None:
    """Stop a server that outlived its owner: we hold the lock, so nobody owns it."""
    found = place.postmaster()
    if found and not _end(found.pid, lambda: not found.running):
        raise ConflictError(
            f"a PostgreSQL without an owner, process {found.pid}, cannot be stopped", where=str(found.data)
        )


def _end(pid: int, gone: Callable[[], bool]) -> bool:
    """End a server, first in the friendliest way; whether it is gone."""
    for number, limit in STOP_LADDER:
        if gone():
            return True
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        if _wait(gone, limit):
            return True
    return gone()


def _wait(condition: Callable[[], bool], limit: float) -> bool:
    deadline = boot_seconds() + limit
    while not condition():
        if boot_seconds() > deadline:
            return False
        time.sleep(POLL)
    return True
