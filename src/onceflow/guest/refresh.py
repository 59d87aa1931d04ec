"""Modules of the DAG folder that a long-lived guest has imported, and whether their files have changed since."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from onceflow.guest.loader import load_class, loading

_stamps: dict[str, tuple[str, int, int]] = {}
_codes: dict[str, str] = {}
_classes: dict[tuple[str, str], type[Any]] = {}


def load_current(classpath: str, file: str, folder: str, code: str) -> type[Any]:
    """The class as the DAG folder says it now, with what it imports there; otherwise as `load_class`.

    `code`: the hash of all that. Triggers that run keep the modules that they have.
    """
    folder = str(Path(folder).absolute())
    with loading:
        if file and not _is_current(classpath, code):
            _forget(folder)
        elif (known := _classes.get((classpath, code))) is not None:
            return known
        found = _classes[classpath, code] = load_class(classpath, file, folder)
        _codes[classpath] = code
        _remember(folder)
        return found


def _is_current(classpath: str, code: str) -> bool:
    """Whether nothing that was imported has changed: no file, and not what the class is known by."""
    unchanged = all(_stamp(path) == (path, *stamp) for path, *stamp in _stamps.values())
    return unchanged and _codes.get(classpath, code) == code


def _forget(folder: str) -> None:
    """Let the folder's modules be imported anew."""
    _stamps.clear()
    _classes.clear()
    for name in [n for n in sys.modules if _file_of(n, folder)]:
        del sys.modules[name]
    importlib.invalidate_caches()


def _remember(folder: str) -> None:
    """Note the files of the modules that are there by now."""
    for name in list(sys.modules):
        if name not in _stamps and (path := _file_of(name, folder)) and (stamp := _stamp(path)) is not None:
            _stamps[name] = stamp


def _file_of(module: str, folder: str) -> str:
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    return path if path.startswith(folder + os.sep) else ""


def _stamp(path: str) -> tuple[str, int, int] | None:
    try:
        now = Path(path).stat()
    except OSError:
        return None
    return path, now.st_mtime_ns, now.st_size
