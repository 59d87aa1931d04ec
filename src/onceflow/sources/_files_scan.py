"""Looks at files on disk: which ones a path or pattern names, and what state they are in. Everything here blocks."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onceflow.model.errors import DagError, SourceError

BLOCK = 1 << 20  # bytes read at once for a digest


@dataclass(frozen=True)
class State:
    """What tells one content of a file from another, short of reading it."""

    size: int
    mtime_ns: int
    real_path: str = field(default="", compare=False)  # to open it by; as a key and in messages it is `printable`


@dataclass(frozen=True)
class Place:
    """What is watched. `base` is the directory below which all of it is, and `pattern` is relative to that."""

    base: Path
    pattern: str  # "" for a directory, a name for one file (or a directory, if it turns out to be one), or a glob
    is_glob: bool = False

    @property
    def recursive(self) -> bool:
        """Whether it may reach below the base directory itself."""
        return self.is_glob and ("/" in self.pattern or "**" in self.pattern)

    @property
    def directories(self) -> list[str]:
        """Where something changes when a file of the place does; not all of them need exist."""
        return [str(self.base)] if self.is_glob else [str(self.base), str(self.base / self.pattern)]

    def __str__(self) -> str:
        return f"{self.base}/{self.pattern}"


def place(path: str) -> Place:
    """Read a path or pattern; one that ends with "/" is a directory. Raises DagError for a relative one."""
    full = Path(path).expanduser()
    if not full.is_absolute():
        raise DagError("the path of files must be absolute", where=path, remedy="/… or ~/…")
    if not glob.has_magic(str(full)):
        return Place(full, "") if path.endswith("/") else Place(full.parent, full.name)
    fixed = next(i for i, part in enumerate(full.parts) if glob.has_magic(part))
    return Place(Path(*full.parts[:fixed]), "/".join(full.parts[fixed:]), is_glob=True)


def scan(where: Place, limit: int) -> dict[str, State]:
    """The regular files of a place and their states, by printable path; symbolic links are followed.

    Names that begin with a dot are left out unless the pattern says such a name: they are how programs call what they
    have not finished writing. Raises SourceError when the directory is missing or unreadable, or holds too many.
    """
    found: dict[str, State] = {}
    try:
        for path in _candidates(where):
            state = _state(path)
            if state is not None:
                found[printable(path)] = state
            if len(found) > limit:
                raise SourceError(
                    f"more than {limit} files",
                    where=str(where),
                    remedy="a narrower pattern, a larger max_files, or move finished files away",
                    code="source_too_large",
                )
    except FileNotFoundError:
        raise _missing(where) from None
    except OSError as exc:
        code = "source_unauthorized" if isinstance(exc, PermissionError) else "source_unreachable"
        raise SourceError(exc.strerror or str(exc), where=str(where), code=code) from None
    return found


def digest(path: str) -> str | None:
    """SHA-256 of a file's content; None when it has gone."""
    whole = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while block := file.read(BLOCK):
                whole.update(block)
    except FileNotFoundError:
        return None
    return whole.hexdigest()


def digests(files: Mapping[str, State]) -> dict[str, str]:
    """The digests of those files that are still there."""
    return {path: value for path, state in files.items() if (value := digest(state.real_path)) is not None}


def printable(path: str) -> str:
    """The path as valid text: bytes that are no UTF-8 are shown as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _candidates(where: Place) -> Iterator[str]:
    base = where.base
    if where.is_glob:
        _listed(base)
        shows_hidden = any(part.startswith(".") for part in where.pattern.split("/"))
        for path in base.glob(where.pattern):
            if shows_hidden or not any(part.startswith(".") for part in path.relative_to(base).parts):
                yield str(path)
        return
    whole = base / where.pattern
    if where.pattern and not whole.is_dir():
        _listed(base)
        yield str(whole)
        return
    for name in _listed(whole):
        if not name.startswith("."):
            yield str(whole / name)


def _listed(directory: Path) -> list[str]:
    """The names in a directory; raises OSError when it cannot be listed, which globbing would keep to itself."""
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def _state(path: str) -> State | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return State(found.st_size, found.st_mtime_ns, path) if stat.S_ISREG(found.st_mode) else None


def _missing(where: Place) -> SourceError:
    directory = where.base
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    message = f"the directory {where.base} does not exist"
    return SourceError(
        message,
        where=str(where),
        remedy=f"create it; of its path only {directory} exists. It is looked for again by itself",
        code="source_not_found",
    )
