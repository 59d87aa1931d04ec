"""The measures by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

from benchmarks.figures import Figure
from benchmarks.system import Setup

Measure = Callable[[Setup], Coroutine[Any, Any, list[Figure]]]

NAMES = (
    "imports",
    "startup",
    "idle",
    "latency",
    "rare",
    "outlet",
    "burst",
    "chain",
    "parallel",
    "fanout",
    "ingest",
    "consume",
    "statements",
    "files",
    "watchers",
    "many_watchers",
    "takeover",
    "verify",
    "promise",
)


def find(name: str) -> Measure:
    """The measure with this name: `measure` of the module so called."""
    return import_module(f"benchmarks.measures.{name}").measure
