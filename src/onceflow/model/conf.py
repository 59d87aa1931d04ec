"""Whether the configuration given to a run fits the parameters its DAG declares."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from onceflow.model.errors import InputError

TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda v: v is None,
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "string": lambda v: isinstance(v, str),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
}
LIMITS: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda v: v, lambda v, limit: v >= limit, "{} or more"),
    "maximum": (lambda v: v, lambda v, limit: v <= limit, "{} or less"),
    "exclusiveMinimum": (lambda v: v, lambda v, limit: v > limit, "more than {}"),
    "exclusiveMaximum": (lambda v: v, lambda v, limit: v < limit, "less than {}"),
    "minLength": (len, lambda v, limit: v >= limit, "{} characters or more"),
    "maxLength": (len, lambda v, limit: v <= limit, "{} characters or less"),
    "minItems": (len, lambda v, limit: v >= limit, "{} items or more"),
    "maxItems": (len, lambda v, limit: v <= limit, "{} items or less"),
}
NUMERIC = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})


def check_conf(conf: Mapping[str, Any], schemas: Mapping[str, Mapping[str, Any]], where: str = "conf") -> None:
    """Raise InputError naming the first parameter whose value its JSON schema forbids.

    Keys the DAG does not declare are allowed, as in Airflow. Of JSON schema, the keywords `type`, `enum`, `const`,
    `pattern` and the limits of numbers, texts and lists are judged; others are left to the task.
    """
    for name, schema in schemas.items():
        if name in conf:
            problem = _problem(conf[name], schema)
            if problem:
                raise InputError(
                    f"parameter {name!r} is {conf[name]!r}", where=f"{where}.{name}", remedy=f"allowed: {problem}"
                )


def _problem(value: Any, schema: Mapping[str, Any]) -> str:
    """What is allowed instead; "" if the value is."""
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else list(types)
    if types and not any(TYPES[t](value) for t in types if t in TYPES):
        return " or ".join(types)
    if "enum" in schema and value not in schema["enum"]:
        return ", ".join(repr(v) for v in schema["enum"])
    if "const" in schema and value != schema["const"]:
        return repr(schema["const"])
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        return f"text matching {schema['pattern']}"
    return next((text for keyword in LIMITS if (text := _beyond(keyword, value, schema))), "")


def _beyond(keyword: str, value: Any, schema: Mapping[str, Any]) -> str:
    if keyword not in schema:
        return ""
    kinds = (int, float) if keyword in NUMERIC else (list,) if keyword.endswith("Items") else (str,)
    if not isinstance(value, kinds) or isinstance(value, bool):
        return ""
    measure, fits, text = LIMITS[keyword]
    return "" if fits(measure(value), schema[keyword]) else text.format(schema[keyword])
