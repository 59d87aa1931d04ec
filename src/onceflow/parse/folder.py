"""Which files of the DAG folder changed: by size and time first, then by content."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

IGNORED = frozenset({"__pycache__", "node_modules", "venv"})


@dataclass(frozen=True)
class Stamp:
    """A file as it was seen last."""

    size: int
    mtime_ns: int
    source_hash: str


def digest(content: bytes) -> str:
    """The hash by which a file's content is known: hex BLAKE2b, 128 bits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


class Folder:
    """Remembers what it saw, so that a look at an unchanged file costs one stat."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen: dict[str, Stamp] = {}

    def look(self) -> None:
        """Bring `seen` up to date with the folder."""
        found: dict[str, Stamp] = {}
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(f for f in folders if f not in IGNORED and not f.startswith("."))
            for name in files:
                if name.endswith(".py") and not name.startswith("."):
                    path = Path(folder, name)
                    relative = path.relative_to(self.root).as_posix()
                    if (stamp := self._stamp(path, self.seen.get(relative))) is not None:
                        found[relative] = stamp
        self.seen = found

    def read(self, path: str) -> bytes | None:
        """The file's content now; None if it is gone."""
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            return None

    def users_of(self, path: str) -> list[str]:
        """Files that import the module that this file is: they may behave differently once it changes."""
        stem = Path(path).parent.name if path.endswith("__init__.py") else Path(path).stem
        importing = re.compile(rb"^\s*(from|import)\b.*\b" + re.escape(stem.encode()) + rb"\b", re.M)
        return [other for other in self.seen if other != path and importing.search(self.read(other) or b"")]

    @staticmethod
    def _stamp(path: Path, before: Stamp | None) -> Stamp | None:
        try:
            now = path.stat()
            if before and (before.size, before.mtime_ns) == (now.st_size, now.st_mtime_ns):
                return before
            return Stamp(now.st_size, now.st_mtime_ns, digest(path.read_bytes()))
        except FileNotFoundError:
            return None  # removed while we looked
