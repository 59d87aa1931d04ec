"""Filters on payloads: what each comparison says, and what is decided when it cannot be judged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.model.errors import DagError
from onceflow.model.event_filter import OPERATORS, asks_source, both, comparison, either, judge_payload, to_text

PAYLOAD = {
    "status": "paid",
    "total": 120,
    "rate": 0.5,
    "vip": True,
    "note": None,
    "tags": ["new", 7],
    "buyer": {"country": "DE", "emails": ["a@b.c"]},
}

CASES: list[tuple[str, str, Any, bool | None]] = [
    # path, operator, value, and whether it is met; None: it cannot be judged
    ("status", "==", "paid", True),
    ("status", "==", "Paid", False),
    ("status", "!=", "open", True),
    ("status", "==", 5, False),
    ("status", "!=", 5, True),
    ("status", "<", "q", True),
    ("status", "<", 5, None),
    ("status", ">", "paid", False),
    ("status", ">=", "paid", True),
    ("status", "in", ["open", "paid"], True),
    ("status", "in", ["open"], False),
    ("status", "not in", ["open"], True),
    ("status", "contains", "ai", True),
    ("status", "starts with", "pa", True),
    ("status", "ends with", "pa", False),
    ("status", "exists", None, True),
    ("total", "==", 120, True),
    ("total", "==", 120.0, True),
    ("total", "==", "120", False),
    ("total", ">", 119.5, True),
    ("total", "<=", 119.5, False),
    ("total", ">", "100", None),
    ("total", "contains", "1", None),
    ("total", "starts with", "1", None),
    ("rate", "<", 1, True),
    ("vip", "==", True, True),
    ("vip", "==", 1, False),
    ("vip", "in", [1, 0], False),
    ("vip", ">", 0, None),
    ("note", "==", None, True),
    ("note", "!=", None, False),
    ("note", "exists", None, True),
    ("note", ">", 1, None),
    ("note", "==", "x", False),
    ("tags", "contains", "new", True),
    ("tags", "contains", 7.0, True),
    ("tags", "contains", "7", False),
    ("tags", "==", "new", False),
    ("tags.0", "==", "new", True),
    ("tags.2", "==", "new", None),
    ("tags.x", "exists", None, False),
    ("buyer.country", "==", "DE", True),
    ("buyer.emails.0", "ends with", ".c", True),
    ("buyer", "contains", "country", True),
    ("buyer", "contains", "city", False),
    ("buyer.city", "==", "X", None),
    ("buyer.city", "!=", "X", None),
    ("buyer.city", "not in", ["X"], None),
    ("buyer.city", "exists", None, False),
    ("status.deeper", "==", "X", None),
    ("missing", "==", None, None),
]


@pytest.mark.parametrize(("path", "operator", "value", "met"), CASES)
def test_a_comparison(path: str, operator: str, value: Any, met: bool | None) -> None:
    wanted = comparison(path, operator, value, "d.py:1")
    verdict = judge_payload(wanted, PAYLOAD)
    assert verdict.accepted == (met is True)
    assert ("cannot be judged" in verdict.reason) == (met is None)
    assert ("is not met" in verdict.reason) == (met is False)
    opposite = judge_payload(["not", wanted], PAYLOAD)
    assert opposite.accepted == (met is False)


def test_every_operator_has_its_cases() -> None:
    assert {case[1] for case in CASES} == set(OPERATORS)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (["==", "status", "open"], 'status == "open" is not met: status is "paid"'),
        (["==", "state", "open"], 'state == "open" cannot be judged: the payload has no field state'),
        ([">", "buyer.city.name", 1], "buyer.city.name > 1 cannot be judged: buyer has no field city"),
        ([">", "status", 1], "status > 1 cannot be judged: status is a text"),
        (["==", "status.x", 1], "status.x == 1 cannot be judged: status is a text, which has no fields"),
        (["exists", "state", None], "state exists is not met: the payload has no field state"),
        (["not", ["==", "status", "paid"]], '~(status == "paid") is not met'),
        (
            ["and", [["==", "status", "paid"], ["or", [[">", "total", 999], ["==", "vip", False]]]]],
            "total > 999 is not met: total is 120; vip == false is not met: vip is true",
        ),
    ],
)
def test_the_reason_names_the_part_and_what_was_there(wanted: list[Any], reason: str) -> None:
    assert judge_payload(wanted, PAYLOAD).reason == reason


TRUE, FALSE, UNKNOWN = (["==", "status", "paid"], ["==", "status", "x"], ["==", "nowhere", 1])


@pytest.mark.parametrize(
    ("op", "parts", "met"),
    [
        ("and", [TRUE, TRUE], True),
        ("and", [TRUE, UNKNOWN], None),
        ("and", [FALSE, UNKNOWN], False),
        ("or", [TRUE, UNKNOWN], True),
        ("or", [FALSE, UNKNOWN], None),
        ("or", [FALSE, FALSE], False),
    ],
)
def test_what_cannot_be_judged_stays_so(op: str, parts: list[Any], met: bool | None) -> None:
    """An event is let through by what its payload says only, by the opposite of a filter, too."""
    assert judge_payload([op, parts], PAYLOAD).accepted == (met is True)
    assert judge_payload(["not", [op, parts]], PAYLOAD).accepted == (met is False)


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.none() | st.booleans() | numbers | st.text(st.characters())  # with NUL and halves of pairs
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
payloads = st.recursive(
    values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner), max_leaves=6
)


@st.composite
def filters(draw: st.DrawFn) -> list[Any]:
    def leaf() -> list[Any]:
        op = draw(st.sampled_from(OPERATORS))
        plain = st.none() | st.booleans() | texts | numbers.filter(lambda v: abs(v) < 2**1000)
        kinds = {
            "in": st.lists(plain, min_size=1, max_size=3),
            "not in": st.lists(plain, min_size=1, max_size=3),
            "starts with": texts,
            "ends with": texts,
            "exists": st.none(),
        }
        orderings = texts | st.integers(-(2**60), 2**60)
        value = draw(kinds.get(op, orderings if op in ("<", "<=", ">", ">=") else plain))
        return comparison(draw(st.sampled_from(["a", "b.c", "a.0.b"])), op, value, "")

    found = leaf()
    for _ in range(draw(st.integers(0, 3))):
        found = draw(st.sampled_from([both, either]))(found, leaf())
        found = ["not", found] if draw(st.booleans()) else found
    return found


@given(filters(), payloads)
def test_any_payload_is_decided(wanted: list[Any], payload: Any) -> None:
    """Whatever a payload holds, it is accepted or there is a reason; never both by a filter and by its opposite."""
    verdict, opposite = judge_payload(wanted, payload), judge_payload(["not", wanted], payload)
    assert verdict.accepted != bool(verdict.reason)
    assert len(verdict.reason) <= 500
    assert "\0" not in verdict.reason
    verdict.reason.encode()  # without half of a surrogate pair
    assert not (verdict.accepted and opposite.accepted)
    assert judge_payload(json.loads(json.dumps(wanted)), payload) == verdict
    assert to_text(wanted)


@pytest.mark.parametrize(
    ("path", "operator", "value", "message", "remedy"),
    [
        ("status", "=", "x", "no operator '='", "==, !=, <"),
        ("", "==", "x", "empty name", "dotted path"),
        ("a..b", "==", "x", "empty name", "dotted path"),
        (5, "==", "x", "field is 5", "dotted path"),
        ("a", "==", [1], "compares by '=='", "a text, a number"),
        ("a", "==", float("nan"), "compares by '=='", "a text, a number"),
        ("a", "==", 10**400, "compares by '=='", "a text, a number"),
        ("a", ">", True, "compares by '>'", "a number or a text"),
        ("a", ">", None, "compares by '>'", "a number or a text"),
        ("a", "in", "abc", "compares by 'in'", "a list"),
        ("a", "in", [], "compares by 'in'", "a list"),
        ("a", "in", [[1]], "compares by 'in'", "a list"),
        ("a", "starts with", 1, "compares by 'starts with'", "a text"),
        ("a", "exists", True, "compares by 'exists'", "no value"),
        ("a", "==", "x\0", "compares by '=='", "a text, a number"),
        ("a", "starts with", "\ud800", "compares by 'starts with'", "a text"),
        ("a\0", "exists", None, "NUL", "dotted path"),
    ],
)
def test_what_makes_no_sense_is_refused(path: Any, operator: Any, value: Any, message: str, remedy: str) -> None:
    with pytest.raises(DagError, match=message) as refused:
        comparison(path, operator, value, "d.py:3")
    assert refused.value.where == "d.py:3"
    assert remedy in refused.value.remedy


def test_a_source_is_asked_by_its_own_paths() -> None:
    """A payload's field of that name means nothing to it, nor does a source's to a filter on the payload."""
    tagged = ["source", ["exists", "lane", None]]
    task = {"kind": "task", "lane": "replay", "status": "open"}
    assert judge_payload(tagged, {}, task).accepted
    assert not judge_payload(tagged, {"lane": "x"}, {"kind": "cli"}).accepted
    assert not judge_payload(tagged, {"lane": "x"}).accepted
    wanted = both(["not", tagged], ["==", "status", "paid"])
    assert to_text(wanted) == '~(source(lane exists)) & status == "paid"'
    assert judge_payload(wanted, PAYLOAD, {"kind": "cli"}).accepted
    assert judge_payload(wanted, PAYLOAD, task).reason == "~(source(lane exists)) is not met"
    by_dag = ["source", ["==", "dag_id", "load"]]
    assert judge_payload(by_dag, {}, {"kind": "cli"}).reason.startswith('source(dag_id == "load" cannot be judged')
    assert asks_source(wanted) and asks_source(["or", [["not", tagged]]]) and not asks_source(["==", "a", 1])
