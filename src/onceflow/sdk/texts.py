"""Refuses what no database stores in the texts of a DAG file's declarations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onceflow.model.dagspec import AssetSpec, DagSpec
from onceflow.model.errors import DagError
from onceflow.model.serialize import to_json
from onceflow.model.text import find_unstorable


def check_texts(dags: Iterable[DagSpec], assets: Iterable[AssetSpec]) -> None:
    """Raise DagError naming the text that holds a NUL character or half of a surrogate pair.

    An asset's extra and a trigger's arguments are values, which may hold any character.
    """
    for dag in dags:
        _check(to_json(dag), f"of DAG {dag.dag_id!r}", dag.where)
    for asset in assets:
        names = [asset.name, asset.uri, asset.group, *(watcher.name for watcher in asset.watchers)]
        _check(names, f"of asset {asset.name!r}", asset.where)


def _check(value: Any, owner: str, where: str) -> None:
    path = find_unstorable(value)
    if path is not None:
        name = path.lstrip(".") if isinstance(value, dict) else "a name"
        message = f"{name} {owner} holds a NUL character or half of a surrogate pair"
        raise DagError(message, where=where, remedy="no database stores it: leave it out, or write it as an escape")
