"""The import finder: gives `airflow` and its modules as modules whose names come from Onceflow."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

from onceflow.compat.names import MISSING, MODULES
from onceflow.config import compat_forced

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # importlib.abc brings tempfile, random and compression into every guest

TOP = "airflow"


class AirflowFinder:
    """Answers imports of `airflow` and below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != TOP and not fullname.startswith(f"{TOP}."):
            return None
        if fullname == TOP:
            _refuse_real()
        if fullname not in PACKAGES:
            raise ModuleNotFoundError(_no_module(fullname), name=fullname)
        return ModuleSpec(fullname, MappedLoader(), origin="onceflow.compat", is_package=True)


class MappedLoader(Loader):
    """Makes a module whose attributes are looked up in the mapping."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return MappedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Its names are filled in when they are used."""


class MappedModule(ModuleType):
    """One of Airflow's modules."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__" and self.__name__ in (TOP, f"{TOP}.sdk", f"{TOP}.version"):
            return VERSION
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no name {name!r}")
        home = MODULES.get(self.__name__, {}).get(name)
        if home is None:
            if f"{self.__name__}.{name}" in PACKAGES:
                return importlib.import_module(f"{self.__name__}.{name}")
            raise ImportError(_no_name(self.__name__, name), name=self.__name__)
        module, _, attribute = home.partition(":")
        value = getattr(importlib.import_module(module), attribute)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *MODULES.get(self.__name__, {})})


VERSION = "3.2.0+onceflow"
PACKAGES = frozenset(".".join(name.split(".")[:depth]) for name in MODULES for depth in range(1, name.count(".") + 2))


def _refuse_real() -> None:
    """Raise ImportError if a real Airflow is installed and the mapping is not forced."""
    real = PathFinder.find_spec(TOP)
    if real is not None and real.origin is not None and not compat_forced():
        raise ImportError(
            f"a real Airflow is installed here ({real.origin}), so Onceflow does not take its name; "
            "import from onceflow instead, uninstall Airflow here, or set ONCEFLOW_COMPAT=force to use our mapping",
            name=TOP,
        )


def _no_module(name: str) -> str:
    known = MISSING.get(name)
    if known:
        return f"{name}: {known}"
    close = _close(name, [m for m in MODULES if MODULES[m]])
    near = f"; near ones: {', '.join(close)}" if close else ""
    return f"Onceflow's mapping of Airflow has no module {name}{near}"


def _no_name(module: str, name: str) -> str:
    known = MISSING.get(f"{module}.{name}") or MISSING.get(name)
    if known:
        return f"{module}.{name}: {known}"
    names = MODULES.get(module, {})
    close = _close(name, names) or sorted(names)[:12]
    elsewhere = sorted(m for m, there in MODULES.items() if name in there)[:3]
    near = f"; it has {', '.join(close)}" if close else ""
    other = f"; {name} is in {', '.join(elsewhere)}" if elsewhere else ""
    return f"Onceflow's mapping of {module} has no name {name}{near}{other}"


def _close(name: str, known: Collection[str]) -> list[str]:
    import difflib  # only to tell what is wrong

    return difflib.get_close_matches(name, list(known), n=3)
