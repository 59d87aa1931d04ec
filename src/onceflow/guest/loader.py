"""Loads DAG files in guest processes.

A file is executed as a module named by its path in the DAG folder ("team/etl.py" is `team.etl`), so that its classes
can be imported by that name, and the folder stands last on `sys.path`, so that its files import each other.
"""

from __future__ import annotations

import importlib
import linecache
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from onceflow import compat
from onceflow.model.errors import DagError
from onceflow.sdk import scope
from onceflow.sdk.asset import Asset
from onceflow.sdk.dag import DAG


@dataclass(frozen=True)
class LoadedFile:
    """A DAG file after its execution: its module, its DAGs, the assets at its top level, in collections too.

    `dropped`: DAGs that it made and kept under no name, which nobody can find.
    """

    module: ModuleType
    dags: list[DAG]
    assets: list[Asset]
    dropped: list[DAG]

    def dag(self, dag_id: str) -> DAG:
        """The DAG with this id. Raises DagError if the file makes none."""
        for dag in self.dags:
            if dag.dag_id == dag_id:
                return dag
        found = ", ".join(dag.dag_id for dag in self.dags) or "none"
        raise DagError(
            f"the file makes no DAG {dag_id!r}", where=str(self.module.__file__), remedy=f"its DAGs: {found}"
        )


def prepare(dag_folder: str | Path) -> None:
    """Make the DAG folder importable, behind everything else, and map Airflow's names."""
    # Byte code is known by second and size: of a module edited twice within a second the older one would be loaded.
    sys.dont_write_bytecode = True
    folder = str(Path(dag_folder).absolute())
    if folder not in sys.path:
        sys.path.append(folder)
    compat.install()


def module_name(path: str) -> str:
    """The module name of a file, given relative to the DAG folder; one that is taken by something else is prefixed."""
    parts = list(Path(path).with_suffix("").parts)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    name = ".".join(part.replace(".", "_") for part in parts)
    return f"dag_{name}" if parts[0] in sys.stdlib_module_names or parts[0] in RESERVED else name


# DAGs register themselves with the file that is being loaded, so only one is loaded at a time.
loading = threading.RLock()
_files: dict[str, LoadedFile] = {}

RESERVED = frozenset({"airflow", "asyncpg", "fastapi", "onceflow", "pendulum", "uvicorn"})


def load_file(path: str, dag_folder: str | Path, source: bytes | None = None) -> LoadedFile:
    """Execute a DAG file, `path` relative to the folder; `source` are its bytes, if they were kept from earlier.

    Raises whatever the file raises (SyntaxError included).
    """
    prepare(dag_folder)
    full = Path(dag_folder).absolute() / path
    with loading:
        return _load(full, module_name(path), Path(dag_folder).absolute(), source)


def _load(full: Path, name: str, folder: Path, source: bytes | None) -> LoadedFile:
    loader = KeptSource(name, full, source)
    spec = ModuleSpec(name, loader, origin=str(full), is_package=full.name == "__init__.py")
    spec.has_location = True
    if spec.submodule_search_locations is not None:
        spec.submodule_search_locations.append(str(full.parent))
    module = module_from_spec(spec)
    before, made_before = len(scope.registered), len(scope.made)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)
    values = list(vars(module).values())
    dags = _own(_once([*scope.registered[before:], *(v for v in values if isinstance(v, DAG))]), full, folder)
    kept = {id(dag) for dag in dags}
    dropped = [d for d in scope.made[made_before:] if id(d) not in kept and d.auto_register and d.file == str(full)]
    loaded = _files[name] = LoadedFile(module, dags, _once(_assets(values)), dropped)
    return loaded


def _assets(values: Iterable[Any]) -> Iterator[Asset]:
    """Those of the values that are assets, or collections of assets."""
    for value in values:
        if isinstance(value, Asset):
            yield value
        elif isinstance(value, (list, tuple, set, frozenset)):
            yield from (item for item in value if isinstance(item, Asset))
        elif isinstance(value, dict):
            yield from (item for item in value.values() if isinstance(item, Asset))


def loaded_file(path: str, dag_folder: str | Path) -> LoadedFile:
    """The DAG file, executed now unless it was before and has not changed since."""
    prepare(dag_folder)
    with loading:
        return _files[module_name(path)] if _loaded(path, dag_folder) else load_file(path, dag_folder)


def load_class(classpath: str, file: str, dag_folder: str | Path) -> type[Any]:
    """The class "package.module.Class"; `file` is the DAG file that defines it, "" if it is an installed one.

    Raises DagError if there is no such class, and whatever the import of its module raises.
    """
    prepare(dag_folder)
    module_path, _, name = classpath.rpartition(".")
    with loading:
        module = loaded_file(file, dag_folder).module if file else importlib.import_module(module_path)
    found = getattr(module, name, None)
    if not isinstance(found, type):
        where = file or module_path
        raise DagError(f"{where} has no class {name!r}", where=where, remedy="was it renamed or removed?")
    return found


def _loaded(file: str, dag_folder: str | Path) -> ModuleType | None:
    """The file's module, if it was loaded and the file has not changed since."""
    module = sys.modules.get(module_name(file))
    loader = getattr(module, "__loader__", None)
    full = Path(dag_folder).absolute() / file
    return module if isinstance(loader, KeptSource) and loader.is_of(full) else None


class KeptSource(SourceFileLoader):
    """Executes a module from its file, or from bytes that were kept from earlier; writes no byte code."""

    def __init__(self, name: str, path: Path, source: bytes | None) -> None:
        super().__init__(name, str(path))
        self.source = source
        self.executed = b""

    def is_of(self, path: Path) -> bool:
        """Whether this is the module of that file as it is now."""
        return str(path) == self.path and path.read_bytes() == self.executed

    def path_stats(self, path: str) -> dict[str, Any]:
        """No time and size, so no byte code is read or written: it would be that of another content."""
        raise OSError(f"{path}: byte code is not kept")

    def get_data(self, path: str) -> bytes:
        if self.source is None:
            self.executed = Path(path).read_bytes()
        else:
            self._remember_lines(self.source)
            self.executed = self.source
        return self.executed

    def _remember_lines(self, source: bytes) -> None:
        """Let tracebacks quote the source that runs, not the file as it is by now."""
        lines = source.decode("utf-8", "replace").splitlines(keepends=True)
        linecache.cache[self.path] = (len(source), None, lines, self.path)


def _once(items: Iterable[Any]) -> list[Any]:
    return list({id(item): item for item in items}.values())


def _own(dags: list[DAG], full: Path, folder: Path) -> list[DAG]:
    """Without those that were made by another DAG file, which this one imports."""
    inside = f"{folder}/"
    return [dag for dag in dags if dag.file == str(full) or not dag.file.startswith(inside)]
