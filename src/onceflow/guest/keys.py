"""Key functions, found where a DAG file declares them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from onceflow.guest.loader import loaded_file
from onceflow.model.errors import DagError
from onceflow.sdk import keys
from onceflow.sdk.spec import assets_of

KeyOf = Callable[[Any], str]


def key_function(file: str, dag_folder: str | Path, asset: str, watcher: str) -> KeyOf:
    """What gives a payload of the watcher its key: the function that the watcher has in this file, or else its asset.

    Raises DagError if there is none, and whatever the file raises when it is loaded.
    """
    loaded = loaded_file(file, dag_folder)
    found = [a for a in (*loaded.assets, *(a for dag in loaded.dags for a in assets_of(dag))) if a.name == asset]
    own = _first(w.key for a in found for w in a.watchers if w.name == watcher)
    if own is not None:
        return _calling(own, f"watcher {watcher!r} of asset {asset!r}")
    function = _first(a.key for a in found)
    if function is not None:
        return _calling(function, f"asset {asset!r}")
    raise DagError(f"{file} declares no key function for asset {asset!r}", where=file, remedy="was it just edited?")


def _first(declared: Any) -> Callable[[Any], object] | None:
    return next((key for key in declared if callable(key)), None)


def _calling(function: Callable[[Any], object], owner: str) -> KeyOf:
    return lambda payload: keys.call(function, payload, owner)
