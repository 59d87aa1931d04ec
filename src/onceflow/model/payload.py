"""Fields of payloads, by their dotted path: `order.lines.0.id`. A number in a path is an index of a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Found(NamedTuple):
    """What stands at a path; if nothing does, `value` is what has no `name`, and `seen` the path to that ("": all)."""

    there: bool
    value: Any
    seen: str = ""
    name: str = ""


def look_up(payload: Any, path: str) -> Found:
    """The field of a payload of JSON's own types."""
    value, seen = payload, ""
    for name in path.split("."):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and _is_index(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            return Found(False, value, seen, name)
        seen = f"{seen}.{name}" if seen else name
    return Found(True, value)


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 10
