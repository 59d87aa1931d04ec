"""How pending events become runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import ASSETS, conditions

from onceflow.model.asset_expr import assets_of, holds
from onceflow.model.consume import Group, Judgement, Pending, check_policy, default_policy, judge
from onceflow.model.dagspec import AssetSchedule
from onceflow.model.errors import DagError

A, B, C = (["asset", name] for name in "abc")
AND = AssetSchedule(["and", [A, B]], "all")
queues = st.lists(st.sampled_from([*ASSETS, "x"]), max_size=12).map(
    lambda assets: [Pending(10 + 3 * n, asset) for n, asset in enumerate(assets)]
)


def events(assets: str) -> list[Pending]:
    return [Pending(n, asset) for n, asset in enumerate(assets, 1)]


def test_each_makes_one_run_per_event_in_order() -> None:
    judged = judge(AssetSchedule(["or", [A, B]], "each"), events("abba"))
    assert judged.groups == tuple(Group(n, (n,)) for n in (1, 2, 3, 4))
    assert judged.explanation["pending"] == {"a": 2, "b": 2}


def test_all_waits_for_the_last_asset() -> None:
    judged = judge(AND, events("aaa"))
    assert judged.groups == ()
    assert judged.explanation == {
        "policy": "all",
        "condition": {
            "op": "and",
            "holds": False,
            "items": [{"op": "asset", "asset": "a", "holds": True}, {"op": "asset", "asset": "b", "holds": False}],
        },
        "pending": {"a": 3},
    }


def test_all_takes_everything_and_names_the_event_that_completed_it() -> None:
    assert judge(AND, events("aaba")).groups == (Group(3, (1, 2, 3, 4)),)


def test_all_with_or_starts_at_the_first_event() -> None:
    assert judge(AssetSchedule(["or", [A, B]], "all"), events("bab")).groups == (Group(1, (1, 2, 3)),)


def test_events_of_assets_that_the_condition_does_not_name_stay_pending() -> None:
    judged = judge(AND, events("xaxb"))
    assert judged.groups == (Group(4, (2, 4)),)
    assert judged.explanation["ignored"] == {"x": 2}
    assert judge(AssetSchedule(A, "each"), events("xa")).groups == (Group(2, (2,)),)


@pytest.mark.parametrize(
    ("assets", "start"), [("abc", 2), ("acb", 2), ("cab", 1), ("ddabc", 4), ("dddac", 5), ("bbbbba", 6), ("dcdabd", 2)]
)
def test_the_completing_event_is_the_first_that_makes_the_condition_true(assets: str, start: int) -> None:
    condition = ["or", [["and", [A, B]], C, ["and", [["asset", "d"], C]]]]
    assert judge(AssetSchedule(condition, "all"), events(assets)).groups[0].start_event == start


def test_nothing_pending_makes_nothing() -> None:
    for policy in ("each", "all"):
        assert judge(AssetSchedule(A, policy), []).groups == ()


def first_prefix(condition: list[Any], pending: list[Pending]) -> int | None:
    """The slow and obvious way to find the completing event."""
    seen: set[str] = set()
    for p in pending:
        seen.add(p.asset)
        if holds(condition, seen):
            return p.event_id
    return None


@given(conditions(), queues)
def test_all_fires_exactly_when_the_condition_holds(condition: list[Any], pending: list[Pending]) -> None:
    judged = judge(AssetSchedule(condition, "all"), pending)
    ours = [p for p in pending if p.asset in assets_of(condition)]
    start = first_prefix(condition, ours)
    if start is None:
        assert judged.groups == ()
    else:
        assert judged.groups == (Group(start, tuple(p.event_id for p in ours)),)


@given(conditions(), queues, st.sampled_from(["each", "all"]))
def test_no_run_has_an_input_missing(condition: list[Any], pending: list[Pending], policy: Any) -> None:
    asset = {p.event_id: p.asset for p in pending}
    for group in judge(AssetSchedule(condition, policy), pending).groups:
        assert holds(condition, {asset[m] for m in group.members})


@given(conditions(), queues, st.sampled_from(["each", "all"]))
def test_every_event_is_in_one_run_at_most(condition: list[Any], pending: list[Pending], policy: Any) -> None:
    judged = judge(AssetSchedule(condition, policy), pending)
    members = [m for group in judged.groups for m in group.members]
    assert len(members) == len(set(members))
    assert set(members) <= {p.event_id for p in pending}
    assert all(group.start_event in group.members for group in judged.groups)
    assert all(list(group.members) == sorted(group.members) for group in judged.groups)


@given(conditions(), queues, st.sampled_from(["each", "all"]))
def test_what_is_left_makes_no_further_run(condition: list[Any], pending: list[Pending], policy: Any) -> None:
    schedule = AssetSchedule(condition, policy)
    taken = {m for group in judge(schedule, pending).groups for m in group.members}
    assert judge(schedule, [p for p in pending if p.event_id not in taken]).groups == ()


@given(conditions(), queues, st.data())
def test_judging_in_portions_loses_nothing(condition: list[Any], pending: list[Pending], data: st.DataObject) -> None:
    """However the arrivals are cut, what is left at the end does not satisfy the condition."""
    schedule = AssetSchedule(condition, "all")
    left: list[Pending] = []
    consumed: list[int] = []
    while pending:
        size = data.draw(st.integers(1, len(pending)))
        left, pending = left + pending[:size], pending[size:]
        taken = {m for group in judge(schedule, left).groups for m in group.members}
        consumed += taken
        left = [p for p in left if p.event_id not in taken]
    assert len(consumed) == len(set(consumed))
    assert not holds(condition, {p.asset for p in left})


def test_many_events_leave_a_small_explanation() -> None:
    pending = [Pending(n, "ab"[n % 2]) for n in range(50_000)]
    for schedule in (AND, AssetSchedule(["or", [A, B]], "each")):
        judged: Judgement = judge(schedule, pending)
        assert sum(len(g.members) for g in judged.groups) == 50_000
        assert len(json.dumps(judged.explanation)) < 500


def test_a_wide_and_asks_the_condition_only_a_few_times() -> None:
    """A thousand assets: the completing one is found by halving."""

    class Counting(list):
        asked = 0

        def __iter__(self):
            Counting.asked += 1
            return super().__iter__()

    names = [f"n{n}" for n in range(1_000)]
    condition = ["and", Counting(["asset", n] for n in names)]
    judged = judge(AssetSchedule(condition, "all"), [Pending(n, name) for n, name in enumerate(names)])
    assert judged.groups[0].start_event == 999
    assert Counting.asked < 20


def test_default_policy() -> None:
    assert default_policy(A) == "each"
    assert default_policy(["or", [A, B]]) == "each"
    assert default_policy(["or", [A, ["and", [B, C]]]]) == "all"


@given(conditions())
def test_the_default_policy_always_fits(condition: list[Any]) -> None:
    assert check_policy(condition, default_policy(condition)) == default_policy(condition)
    assert check_policy(condition, "all") == "all"


def test_each_with_and_is_refused_with_what_to_do() -> None:
    with pytest.raises(DagError, match="one run per event") as refused:
        check_policy(["and", [A, B]], "each", "d.py:3")
    assert refused.value.where == "d.py:3"
    assert "All()" in refused.value.remedy


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DagError, match="each, all"):
        check_policy(A, "some", "d.py:3")
