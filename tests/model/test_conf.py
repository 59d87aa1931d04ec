"""A run's conf against the schemas of its DAG's parameters."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow.model.conf import check_conf
from onceflow.model.errors import InputError


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, [1, 0, -5], [1.5, "1", True, None]),
        ({"type": "number"}, [1, 1.5], ["1", False]),
        ({"type": ["null", "string"]}, [None, "x"], [1, []]),
        ({"type": "boolean"}, [True], [0, "true"]),
        ({"type": "array", "minItems": 1}, [[1]], [[], {}]),
        ({"type": "object"}, [{}], [[]]),
        ({"enum": ["a", "b"]}, ["a"], ["c", None]),
        ({"const": 3}, [3], [4]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd"]),
        ({"minimum": 1, "exclusiveMaximum": 3}, [1, 2.9, "not a number"], [0, 3]),
        ({"pattern": "^a"}, ["ab"], ["ba"]),
        ({}, [None, 1, "x"], []),
    ],
)
def test_values(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    for value in good:
        check_conf({"p": value, "undeclared": 1}, {"p": schema})
    for value in bad:
        with pytest.raises(InputError) as refused:
            check_conf({"p": value}, {"p": schema})
        assert refused.value.where == "conf.p" and refused.value.remedy.startswith("allowed: ")


def test_what_is_not_given_keeps_its_default() -> None:
    check_conf({}, {"p": {"type": "integer"}})
