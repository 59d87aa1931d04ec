"""What of the embedded PostgreSQL lies where, and what its `postmaster.pid` tells.

HOME/postgres/            0700
  data/                   the cluster; appears complete or not at all; data/PG_VERSION has its major version
  owner.lock              locked while a process owns the server, and names that process
  password                0600, of the role `onceflow`
  onceflow.conf, pg_hba.conf   written at each start
  local.conf              the user's own settings, read last, if there are any
  run/                    the socket, if the path is short enough; else `runtime` names a private folder elsewhere
HOME/logs/postgres.log    and postgres.log.1
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

ROLE = DATABASE = "onceflow"
PORT = 5432  # only a part of the socket's file name
LOG_LIMIT = 8 << 20  # bytes


@dataclass(frozen=True)
class Postmaster:
    """A server as its `postmaster.pid` describes it; `running` is checked against the process itself."""

    pid: int
    data: Path
    socket_folder: Path
    ready: bool

    @property
    def running(self) -> bool:
        """Whether that process lives and is a PostgreSQL on this data: a dead one's pid may be somebody else's now."""
        return str(self.data) in _command_line(self.pid)


class Place:
    """The paths of one home's server, and the small files in them."""

    def __init__(self, home: Path) -> None:
        self.home = home.expanduser().resolve()
        self.root = self.home / "postgres"
        self.data = self.root / "data"
        self.lock = self.root / "owner.lock"
        self.config = self.root / "onceflow.conf"
        self.user_config = self.root / "local.conf"
        self.access = self.root / "pg_hba.conf"
        self.log = self.home / "logs" / "postgres.log"
        self._password = self.root / "password"
        self._runtime = self.root / "runtime"

    def make(self) -> None:
        """Create the folders; changes the mode of our own `postgres` folder only."""
        if not self.home.exists():
            self.home.parent.mkdir(parents=True, exist_ok=True)
            self.home.mkdir(mode=0o700, exist_ok=True)
        for folder in (self.root, self.log.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.root.chmod(0o700)

    def password(self) -> str:
        """The role's password, "" if there is none yet."""
        with suppress(FileNotFoundError):
            return self._password.read_text().strip()
        return ""

    def keep_password(self, password: str) -> None:
        """Store the password durably, readable by its owner only."""
        write_private(self._password, password)

    def url(self, socket_folder: Path) -> str:
        """The address for clients, in the form the driver and libpq understand."""
        host = quote(str(socket_folder), safe="")
        return f"postgresql://{ROLE}:{quote(self.password())}@/{DATABASE}?host={host}&port={PORT}"

    def postmaster(self) -> Postmaster | None:
        """The server that `postmaster.pid` names, running or not; None without that file or with half of it."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            ready = len(lines) > 7 and lines[7].strip() == "ready"
            return Postmaster(int(lines[0]), Path(lines[1]), Path(lines[4]), ready)
        except (FileNotFoundError, NotADirectoryError, IndexError, ValueError):
            return None

    def forget_postmaster(self, socket_folder: Path) -> None:
        """Remove the lock files of a server that is known to be dead; only for who holds `owner.lock`."""
        name = f".s.PGSQL.{PORT}"
        for path in (self.data / "postmaster.pid", socket_folder / f"{name}.lock", socket_folder / name):
            path.unlink(missing_ok=True)

    def bound_log(self) -> None:
        """Begin the server's log anew when it is long; the one before is kept. The server may be running."""
        with suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_LIMIT:
                shutil.copyfile(self.log, self.log.with_name(f"{self.log.name}.1"))
                os.truncate(self.log, 0)  # the server appends, so it goes on at the new end

    def socket_folder(self) -> Path:
        """A private folder whose path is short enough for a socket: below the home if possible, else a temporary one.

        A temporary one is remembered, so that the owner after a crash uses it again instead of leaving it behind.
        """
        near = self.root / "run"
        near.mkdir(mode=0o700, exist_ok=True)
        if _takes_sockets(near):
            return near
        with suppress(FileNotFoundError):
            kept = Path(self._runtime.read_text())
            if _is_private(kept) and _takes_sockets(kept):
                return kept
        base = tempfile.gettempdir()
        made = Path(tempfile.mkdtemp(prefix="onceflow-", dir=base if len(os.fsencode(base)) < 60 else "/tmp"))
        write_private(self._runtime, str(made))
        return made

    def drop_socket_folder(self) -> None:
        """Remove the temporary folder, if there is one, after a clean stop."""
        with suppress(OSError):
            Path(self._runtime.read_text()).rmdir()
            self._runtime.unlink()


def write_private(path: Path, text: str) -> None:
    """Write a small file that only its owner can read; it has the old or the new text, also after a power cut."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _takes_sockets(folder: Path) -> bool:
    """Whether a socket can be bound there: the path may be too long (over 107 bytes), and some file systems have none.

    A comma separates hosts in a database address, so no path with one will do.
    """
    path = folder / ".s.PGSQL.test"  # as long as the real name
    if "," in str(path):
        return False
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(str(path))
        except OSError:
            return False
        path.unlink()
    return True


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _command_line(pid: int) -> list[str]:
    """The arguments a live process was started with; empty for a dead one and for a zombie."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="surrogateescape").split("\0")
        except OSError:
            return []
    done = subprocess.run(
        ["/bin/ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return [part for part in done.stdout.strip().split(" -D ") for part in (part, part.split(" -c ")[0])]
