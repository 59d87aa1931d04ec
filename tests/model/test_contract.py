"""Payloads against a schema: what a person is told, and what a payload from outside may cost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from onceflow.model.contract import check_schema, flaw
from onceflow.model.errors import DagError
from onceflow.model.judging import bounded


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
        ({"patternProperties": {"^(a|aa)+$": {}}}, {"a" * 100 + "!": 1}),
        ({"patternProperties": {"^(a|aa)+$": {}}, "additionalProperties": False}, {"a" * 100 + "!": 1}),
        ({"uniqueItems": True}, [{"n": n} for n in range(6000)]),
        (
            {
                "$ref": "#/$defs/deep",
                "$defs": {
                    "deep": {"items": {"anyOf": [{"$ref": "#/$defs/deep"}] * 8 + [False], "not": {"const": 1}}},
                },
            },
            json.loads("[" * 12 + "1" + "]" * 12),
        ),
    ],
)
def test_no_payload_keeps_its_judge_busy(schema: Any, payload: Any) -> None:
    """Each of these took minutes or more: it is judged, or it is said that it cannot be."""
    check_schema(schema, "a", "here")
    found = flaw(schema, json.dumps(payload))
    assert found is None or "takes longer than 1 s" in found or "does not match" in found or "not allowed" in found


@pytest.mark.parametrize(
    ("schema", "payload", "words"),
    [
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": "yx"}, "$.a: 'yx' does not match '^x'"),
        ({"pattern": "^x"}, 7, None),
        ({"patternProperties": {"^n_": {"type": "integer"}}}, {"n_a": "1", "b": "1"}, "$.n_a: '1' is not of type"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "c": 2, "b": 3}, "not allowed: 'b', 'c'"),
        ({"patternProperties": {"^n_": {}}, "additionalProperties": False}, {"n_a": 1}, None),
        ({"additionalProperties": {"type": "integer"}}, {"a": 1, "b": "x"}, "$.b: 'x' is not of type 'integer'"),
        ({"additionalProperties": True}, {"a": 1}, None),
        ({"uniqueItems": True}, [1, 1.0], "not unique"),
        ({"uniqueItems": True}, [1, True, "1", [1], [True], {"a": 1}, {"a": True}, None], None),
        ({"uniqueItems": True}, [{"a": [1, {}]}, {"a": [1, {}]}], "not unique"),
        ({"uniqueItems": False}, [1, 1], None),
    ],
)
def test_what_it_tells(schema: Any, payload: Any, words: str | None) -> None:
    told = flaw(schema, json.dumps(payload))
    assert told is None if words is None else words in (told or "")
    assert (told is None) == Draft202012Validator(schema).is_valid(payload)


def test_every_keyword_looks_at_the_time() -> None:
    ours = bounded().VALIDATORS
    assert set(ours) == set(Draft202012Validator.VALIDATORS)
    assert all(keyword.__name__ == "look" for keyword in ours.values())


def test_what_cannot_be_bounded_is_refused() -> None:
    nested = {"properties": {"a": {"patternProperties": {"^(a+)+$": {}}}}, "unevaluatedProperties": False}
    with pytest.raises(DagError, match="unevaluatedProperties and patternProperties") as refused:
        check_schema(nested, "asset 'a'", "f.py:1")
    assert "additionalProperties" in refused.value.remedy and refused.value.where == "f.py:1"
