"""Conditions over assets: `["asset", name]`, `["and", [..]]`, `["or", [..]]`, nested.

A condition is monotone: with more assets present it can only become true, never false again. Both `consume` and the
scheduler rely on that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from onceflow.model.dagspec import Condition
from onceflow.model.errors import DagError

MAX_DEPTH = 100
REMEDY = "a condition is an asset, or assets joined by & and |"


def assets_of(condition: Condition) -> tuple[str, ...]:
    """The names of the assets in the condition, each once, in the order in which they are written."""
    return tuple(dict.fromkeys(_names(condition)))


def holds(condition: Condition, present: Collection[str]) -> bool:
    """Whether the condition is met when exactly the assets `present` have something pending."""
    op, rest = condition
    if op == "asset":
        return rest in present
    if op == "and":
        return all(holds(item, present) for item in rest)
    return any(holds(item, present) for item in rest)


def explain(condition: Condition, present: Collection[str]) -> dict[str, Any]:
    """The condition as a tree that says of each part whether it holds: `op`, `holds`, and `asset` or `items`."""
    op, rest = condition
    if op == "asset":
        return {"op": op, "asset": rest, "holds": rest in present}
    items = [explain(item, present) for item in rest]
    met = [item["holds"] for item in items]
    return {"op": op, "holds": all(met) if op == "and" else any(met), "items": items}


def has_and(condition: Condition) -> bool:
    """Whether more than one asset may be needed at once."""
    op, rest = condition
    return op == "and" or (op == "or" and any(has_and(item) for item in rest))


def validate(condition: Any, where: str = "") -> None:
    """Raise DagError unless `condition` is well formed: known operators, none of them empty, not too deep."""
    _validate(condition, where, 0)


def simplify(condition: Any, where: str = "") -> Condition:
    """An equal condition without needless nesting, repeats or single-item operators. Raises DagError if malformed."""
    validate(condition, where)
    return _simplify(condition)


def to_text(condition: Condition) -> str:
    """The condition as people write it: `a & (b | c)`."""
    op, rest = condition
    if op == "asset":
        return str(rest)
    parts = [f"({to_text(i)})" if i[0] in ("and", "or") else to_text(i) for i in rest]
    return (" & " if op == "and" else " | ").join(parts)


def _names(condition: Condition) -> Iterator[str]:
    op, rest = condition
    if op == "asset":
        yield rest
    else:
        for item in rest:
            yield from _names(item)


def _validate(condition: Any, where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        message = f"the asset condition is nested more than {MAX_DEPTH} levels deep"
        raise DagError(message, where=where, remedy="join assets by one & or | each, without nesting")
    if not isinstance(condition, (list, tuple)) or len(condition) != 2:
        raise DagError(f"{_short(condition)} is not an asset condition", where=where, remedy=REMEDY)
    op, rest = condition
    if op == "asset":
        if not isinstance(rest, str) or not rest:
            raise DagError(f"{_short(rest)} is not an asset's name", where=where, remedy="a name is text and not empty")
        return
    if op not in ("and", "or"):
        raise DagError(f"an asset condition has no operator {_short(op)}", where=where, remedy=REMEDY)
    if not isinstance(rest, (list, tuple)) or not rest:
        raise DagError(f"an asset condition has {op!r} of nothing", where=where, remedy=REMEDY)
    for item in rest:
        _validate(item, where, depth + 1)


def _short(value: Any) -> str:
    """For a message: the value if it is a simple one, else its type (a nested one may be of any size)."""
    return repr(value)[:60] if isinstance(value, (str, int, float, type(None))) else f"a {type(value).__name__}"


def _simplify(condition: Any) -> Condition:
    op, rest = condition
    if op == "asset":
        return [op, rest]
    items: list[Condition] = []
    for item in map(_simplify, rest):
        for part in item[1] if item[0] == op else [item]:
            if part not in items:
                items.append(part)
    return items[0] if len(items) == 1 else [op, items]
