"""The context is filled in when something is first read from it, in whatever way that is done."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from onceflow.sdk.context import Context

VALUES = {"run_id": "r", "params": {"n": 1}}

WAYS: dict[str, Callable[[Context], Any]] = {
    "index": lambda c: c["run_id"] == "r",
    "get": lambda c: c.get("run_id") == "r" and c.get("absent", 5) == 5,
    "in": lambda c: "run_id" in c and "absent" not in c,
    "iterate": lambda c: list(c) == ["run_id", "params"],
    "length": lambda c: len(c) == 2 and bool(c),
    "keys": lambda c: list(c.keys()) == ["run_id", "params"],
    "items": lambda c: dict(c.items()) == VALUES,
    "dict": lambda c: dict(c) == VALUES,
    "unpack": lambda c: {**c} == VALUES,
    "call": lambda c: dict(**c) == VALUES,
    "merge": lambda c: c | {"x": 1} == VALUES | {"x": 1} and {"x": 1} | c == {"x": 1} | VALUES,
    "update another": lambda c: _updated(c) == VALUES,
    "compare": lambda c: c == VALUES,
    "copy": lambda c: c.copy() == VALUES and copy.copy(c) == VALUES and copy.deepcopy(c) == VALUES,
    "pop": lambda c: c.pop("run_id") == "r" and list(c) == ["params"],
    "setdefault": lambda c: c.setdefault("run_id", "other") == "r",
    "show": lambda c: repr(c) == repr(VALUES),
    "reversed": lambda c: list(reversed(c)) == ["params", "run_id"],
}


def _updated(context: Context) -> dict[str, Any]:
    other: dict[str, Any] = {}
    other.update(context)
    return other


def made() -> tuple[Context, list[int]]:
    """A context, and how often its values were made."""
    times: list[int] = []

    def make() -> dict[str, Any]:
        times.append(1)
        return dict(VALUES)

    return Context(make), times


@pytest.mark.parametrize("way", sorted(WAYS))
def test_every_way_of_reading_fills_it_once(way: str) -> None:
    context, times = made()
    assert WAYS[way](context)
    assert len(times) == 1
    assert "params" in context and len(times) == 1


def test_writing_fills_nothing_and_is_kept() -> None:
    context, times = made()
    context["run_id"] = "mine"
    context.update(extra=1)
    assert times == []
    assert context["run_id"] == "mine" and context["params"] == {"n": 1} and context["extra"] == 1
    assert len(times) == 1


def test_what_is_not_there_is_named() -> None:
    context, _ = made()
    with pytest.raises(KeyError, match="nope: the context has params, run_id"):
        context["nope"]
    with pytest.raises(KeyError, match="this run has no logical date"):
        context["ds"]
