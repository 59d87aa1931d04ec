"""JSON Schema with a limit on how long a payload may keep its judge busy.

A payload comes from outside, and whoever judges it has other things to do. So the judgement has a budget of computing
time that each keyword looks at; patterns are matched by an engine that can be told when to give up, and unique items
are found by their hashes instead of by comparing each with each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from onceflow.model.clock import cpu_seconds

JUDGED_SECONDS = 1.0
"""Computing time for one payload."""

_deadline: ContextVar[float] = ContextVar("deadline")


def judge(validator: Any, payload: Any) -> str | None:
    """The worst of what is wrong, with its place; None if nothing is. Raises TimeoutError when that takes too long."""
    from jsonschema.exceptions import best_match

    mark = _deadline.set(cpu_seconds() + JUDGED_SECONDS)
    try:
        error = best_match(validator.iter_errors(payload))
    finally:
        _deadline.reset(mark)
    return None if error is None else f"{error.json_path}: {error.message}"


@lru_cache(maxsize=1)
def bounded() -> Any:
    """The validator class of draft 2020-12, whose keywords look at the time."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    ours = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
    }
    keywords = Draft202012Validator.VALIDATORS | ours
    return extend(Draft202012Validator, {name: _timed(keyword) for name, keyword in keywords.items()})


def _timed(keyword: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def look(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _left()
        yield from keyword(validator, value, instance, schema) or ()

    return look


def _left() -> float:
    left = _deadline.get() - cpu_seconds()
    if left <= 0:
        raise TimeoutError
    return left


def _matches(pattern: str, text: str) -> bool:
    import regex

    return regex.search(pattern, text, timeout=_left()) is not None


def _error(message: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message)


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _matches(pattern, instance):
        yield _error(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, _schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for pattern, schema in patterns.items():
            for name, value in instance.items():
                if _matches(pattern, name):
                    yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    others = [n for n in instance if n not in named and not any(_matches(p, n) for p in patterns)]
    if validator.is_type(allowed, "object"):
        for name in others:
            yield from validator.descend(instance[name], allowed, path=name)
    elif not allowed and others:
        yield _error(f"additional properties are not allowed: {', '.join(map(repr, sorted(others)))}")


def _unique_items(validator: Any, wanted: bool, instance: Any, _schema: Any) -> Iterator[Any]:
    if wanted and validator.is_type(instance, "array") and len(set(map(_hashable, instance))) < len(instance):
        yield _error("the items are not unique")


def _hashable(value: Any) -> Any:
    """A JSON value by which equal ones are told: 1 is 1.0, and neither is true."""
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return frozenset((name, _hashable(part)) for name, part in value.items())
    return isinstance(value, bool), value
