"""Which files of the DAG folder changed: by size and time first, then by content."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from onceflow.model.text import storable

IGNORED = frozenset({"__pycache__", "node_modules", "venv"})
LARGEST = 16 * 1024 * 1024
IMPORTS = re.compile(r"^\s*(?:from|import)\b.*", re.M)
WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class Stamp:
    """A file as it was seen last. `problem`: why it cannot be loaded at all; then the hash stands for that."""

    size: int
    mtime_ns: int
    source_hash: str
    problem: str = ""


def digest(content: bytes) -> str:
    """The hash by which a file's content is known: hex BLAKE2b, 128 bits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


class Folder:
    """Remembers what it saw, so that a look at an unchanged file costs one stat.

    A file that cannot be read is seen with its problem and hides no other.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen: dict[str, Stamp] = {}
        self._unread: list[Path] = []

    def look(self) -> None:
        """Bring `seen` up to date with the folder. Raises OSError if the folder itself cannot be read."""
        found: dict[str, Stamp] = {}
        with os.scandir(self.root):
            self._unread.clear()
        for folder, folders, files in os.walk(self.root, onerror=self._note_unread):
            folders[:] = sorted(f for f in folders if f not in IGNORED and not f.startswith("."))
            for name in files:
                if name.endswith(".py") and not name.startswith("."):
                    path = Path(folder, name)
                    relative = path.relative_to(self.root).as_posix()
                    shown = storable(relative)
                    if (stamp := _stamp(path, self.seen.get(shown), named_well=shown == relative)) is not None:
                        found[shown] = stamp
        self.seen = found

    def hides(self, path: str) -> bool:
        """Whether the file lies in a folder that could not be read, so that nobody knows whether it is gone."""
        return any((self.root / path).is_relative_to(folder) for folder in self._unread)

    def _note_unread(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            self._unread.append(Path(error.filename))

    def read(self, path: str) -> bytes | None:
        """The file's content now; None if it is gone or cannot be read."""
        try:
            return (self.root / path).read_bytes()
        except OSError:
            return None

    def users_of(self, paths: Collection[str]) -> set[str]:
        """Files that import a module that one of these is, or one that does so: they may behave differently by now."""
        readable = [other for other, stamp in self.seen.items() if not stamp.problem] if paths else []
        imports = {other: _imported(self.read(other) or b"", without=Path(other).stem) for other in readable}
        found: set[str] = set()
        new = set(paths)
        while new:
            names = {_name(path) for path in new}
            new = {other for other, words in imports.items() if other not in found and names & words}
            found |= new
        return found


def _stamp(path: Path, before: Stamp | None, *, named_well: bool) -> Stamp | None:
    """The file as it is now; None if it was removed while we looked."""
    try:
        now = path.stat()
        if before and (before.size, before.mtime_ns) == (now.st_size, now.st_mtime_ns):
            return before
        if problem := _problem(now, named_well=named_well):
            return _unreadable(problem, now.st_size, now.st_mtime_ns)
        return Stamp(now.st_size, now.st_mtime_ns, digest(path.read_bytes()))
    except FileNotFoundError:
        return None
    except OSError as error:
        return _unreadable(error.strerror or str(error))


def _name(path: str) -> str:
    """What a file is imported by, without the packages around it."""
    return Path(path).parent.name if path.endswith("__init__.py") else Path(path).stem


def _imported(content: bytes, without: str) -> set[str]:
    """All words in a file's lines of imports but its own name."""
    lines = IMPORTS.findall(content.decode(errors="replace"))
    return {word for line in lines for word in WORDS.findall(line)} - {without}


def _problem(now: os.stat_result, *, named_well: bool) -> str:
    if not named_well:
        return "its name is not valid UTF-8"
    if not stat.S_ISREG(now.st_mode):
        return "it is no regular file"
    return f"it has {now.st_size} bytes, the limit is {LARGEST}" if now.st_size > LARGEST else ""


def _unreadable(problem: str, size: int = -1, mtime_ns: int = -1) -> Stamp:
    """Is looked at again each time, when it could not be read: permissions are no part of size and time."""
    return Stamp(size, mtime_ns, digest(problem.encode()), problem)
