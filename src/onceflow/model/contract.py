"""Contracts: what an asset's payloads have to look like, as a JSON Schema (draft 2020-12).

A payload that breaks its asset's contract is no reason to refuse the change: it happened. Its event is stored, with its
identity and its place, and quarantined with the flaw that is named here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from onceflow.model.errors import DagError
from onceflow.model.judging import JUDGED_SECONDS, bounded, judge
from onceflow.model.text import flaw_text


def check_schema(schema: Any, what: str, where: str) -> None:
    """Raise DagError unless this is a JSON Schema, complete in itself."""
    from jsonschema import Draft202012Validator, SchemaError  # 60 ms, and few files have one

    remedy = "give a JSON Schema (draft 2020-12) as an object"
    if not isinstance(schema, Mapping):
        raise DagError(f"{what} has the schema {schema!r}", where=where, remedy=remedy)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path)) or "its top"
        message = f"{what} has a schema that is none at {place}: {flaw_text(error.message)}"
        raise DagError(message, where=where, remedy=remedy) from error
    entries = list(_entries(schema))
    if {"unevaluatedProperties", "patternProperties"} <= {name for name, _ in entries}:
        message = f"{what} has a schema with unevaluatedProperties and patternProperties"
        raise DagError(message, where=where, remedy="use additionalProperties beside patternProperties")
    for name, reference in entries:
        if name in ("$ref", "$dynamicRef") and isinstance(reference, str) and not reference.startswith("#"):
            message = f"the schema of {what} refers to {reference!r}, which is not in it"
            raise DagError(message, where=where, remedy="put it under $defs, and refer to '#/$defs/…'")


def flaw(schema: Mapping[str, Any], extra: str) -> str | None:
    """What is wrong with a payload, given as JSON text: the worst of it, with its place; None if it is as agreed."""
    try:
        found = judge(_validator(json.dumps(schema, sort_keys=True)), json.loads(extra))
    except TimeoutError:
        return f"to judge it by the schema takes longer than {JUDGED_SECONDS:g} s"
    except Exception as error:  # a schema that cannot be applied, such as one that refers to itself for ever
        return flaw_text(f"the schema cannot be applied: {type(error).__name__}: {error}")
    return None if found is None else flaw_text(found)


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    from referencing import Registry

    return bounded()(json.loads(schema), registry=Registry())  # an empty one: nothing is fetched


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Every name in a schema with what stands under it, at any depth."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield name, part
            yield from _entries(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _entries(part)
