"""Conditions over assets: what holds, how it is explained, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import ASSETS, conditions

from onceflow.model.asset_expr import (
    MAX_DEPTH,
    assets_of,
    explain,
    has_and,
    holds,
    simplify,
    to_text,
    validate,
)
from onceflow.model.errors import DagError

A, B, C = (["asset", name] for name in "abc")
present = st.sets(st.sampled_from(ASSETS))


@pytest.mark.parametrize(
    ("condition", "there", "expected"),
    [
        (A, "a", True),
        (A, "b", False),
        (["and", [A, B]], "a", False),
        (["and", [A, B]], "ab", True),
        (["or", [A, B]], "b", True),
        (["or", [A, B]], "c", False),
        (["and", [A, ["or", [B, C]]]], "ac", True),
        (["and", [A, ["or", [B, C]]]], "bc", False),
        (["or", [A, ["and", [B, C]]]], "b", False),
        (["or", [A, ["and", [B, C]]]], "bc", True),
    ],
)
def test_holds(condition: list[Any], there: str, expected: bool) -> None:
    assert holds(condition, set(there)) is expected


def test_assets_come_once_each_and_in_order() -> None:
    assert assets_of(["and", [B, ["or", [A, B]], C]]) == ("b", "a", "c")


@given(conditions(), present, present)
def test_more_assets_never_make_a_condition_false(condition: list[Any], some: set[str], more: set[str]) -> None:
    assert holds(condition, some | more) or not holds(condition, some)


@given(conditions())
def test_nothing_satisfies_no_condition_and_everything_satisfies_any(condition: list[Any]) -> None:
    assert not holds(condition, ())
    assert holds(condition, assets_of(condition))


@given(conditions(), present)
def test_simplifying_changes_the_form_only(condition: list[Any], there: set[str]) -> None:
    simple = simplify(condition)
    validate(simple)
    assert holds(simple, there) == holds(condition, there)
    assert set(assets_of(simple)) == set(assets_of(condition))
    assert simplify(simple) == simple


@pytest.mark.parametrize(
    ("condition", "simple"),
    [
        (["and", [A]], A),
        (["or", [A, A]], A),
        (["and", [["and", [A, B]], C]], ["and", [A, B, C]]),
        (["or", [A, ["or", [B, ["or", [C]]]]]], ["or", [A, B, C]]),
        (["and", [A, ["or", [B]]]], ["and", [A, B]]),
        (("and", (("asset", "a"), B)), ["and", [A, B]]),
    ],
)
def test_simplify(condition: Any, simple: list[Any]) -> None:
    assert simplify(condition) == simple


@given(conditions(), present)
def test_the_explanation_says_what_holds_of_every_part(condition: list[Any], there: set[str]) -> None:
    def check(tree: dict[str, Any], part: list[Any]) -> None:
        assert tree["op"] == part[0]
        assert tree["holds"] == holds(part, there)
        if part[0] == "asset":
            assert tree["asset"] == part[1]
        else:
            for sub_tree, sub_part in zip(tree["items"], part[1], strict=True):
                check(sub_tree, sub_part)

    check(explain(condition, there), condition)


@given(conditions(ops=("or",)))
def test_without_and_any_one_asset_is_enough(condition: list[Any]) -> None:
    assert not has_and(condition)
    assert all(holds(condition, {asset}) for asset in assets_of(condition))


def test_has_and_looks_inside() -> None:
    assert has_and(["and", [A, B]])
    assert has_and(["or", [A, ["and", [B, C]]]])
    assert not has_and(["or", [A, B]])
    assert not has_and(A)


def test_to_text() -> None:
    assert to_text(A) == "a"
    assert to_text(["and", [A, ["or", [B, C]]]]) == "a & (b | c)"
    assert to_text(["or", [["and", [A, B]], C]]) == "(a & b) | c"


def nested(levels: int) -> list[Any]:
    condition: list[Any] = A
    for level in range(levels):
        condition = ["and" if level % 2 else "or", [condition, B]]
    return condition


@pytest.mark.parametrize(
    "condition",
    [
        None,
        "a",
        [],
        ["asset"],
        ["asset", ""],
        ["asset", 1],
        ["asset", ["a"]],
        ["not", [A]],
        ["and", []],
        ["and", "ab"],
        ["and", [A, None]],
        ["or", [A, ["and", [["asset", ""]]]]],
        ["and", [A], [B]],
        [["asset"], "a"],
        nested(MAX_DEPTH + 1),
        nested(5_000),
        [nested(5_000)],
    ],
)
def test_a_malformed_condition_is_refused_with_place_and_remedy(condition: Any) -> None:
    for check in (validate, simplify):
        with pytest.raises(DagError) as refused:
            check(condition, "d.py:3")
        assert refused.value.where == "d.py:3"
        assert refused.value.remedy


def test_depth_up_to_the_limit_is_fine() -> None:
    assert holds(nested(MAX_DEPTH), {"a", "b"})
    validate(nested(MAX_DEPTH))
