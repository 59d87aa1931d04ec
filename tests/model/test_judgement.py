"""How pending events become runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import ASSETS, conditions

from onceflow.model.asset_expr import assets_of, has_and, holds
from onceflow.model.consume import (
    Group,
    Judgement,
    Pending,
    Situation,
    Waiting,
    check_policy,
    default_policy,
    judge_each,
    judge_gathered,
    parts,
    with_fresh,
)
from onceflow.model.dagspec import AssetSchedule, Policy
from onceflow.model.errors import DagError

A, B, C = (["asset", name] for name in "abc")
AND = AssetSchedule(["and", [A, B]], "all")
START = datetime(2026, 1, 1, tzinfo=UTC)
queues = st.lists(st.sampled_from(ASSETS), max_size=12).map(
    lambda assets: [Pending(10 + 3 * n, asset, at(n)) for n, asset in enumerate(assets)]
)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def events(assets: str) -> list[Pending]:
    """One event a second."""
    return [Pending(n, asset, at(n)) for n, asset in enumerate(assets, 1)]


def waiting(pending: list[Pending]) -> dict[str, Waiting]:
    found: dict[str, Waiting] = {}
    for asset in dict.fromkeys(p.asset for p in pending):
        own = [p for p in pending if p.asset == asset]
        found[asset] = Waiting(len(own), own[0].event_id, own[-1].event_id, own[0].at or START, own[-1].at or START)
    return found


def gathered(schedule: AssetSchedule, pending: list[Pending], now: float = 1e6, **more: Any) -> Judgement:
    named = [p for p in pending if p.asset in assets_of(schedule.condition)]
    return judge_gathered(schedule, Situation(at(now), waiting(named), **more))


def judge(schedule: AssetSchedule, pending: list[Pending]) -> tuple[Group, ...]:
    """The runs of what is pending, with the members that a run of everything has, and of what waits in parts."""
    named = [p for p in pending if p.asset in assets_of(schedule.condition)]
    if schedule.policy == "each":
        return judge_each(schedule, named).groups
    groups, judgement = [], gathered(schedule, named)
    if judgement.in_parts:
        return tuple(g for g, _ in parts(schedule, named, waiting(named), at(1e6)).groups)
    for group in judgement.groups:
        everything = tuple(p.event_id for p in named)
        groups.append(Group(group.start_event, everything if group.others else group.members))
        assert group.others in (0, len(named))
    return tuple(groups)


def test_each_makes_one_run_per_event_in_order() -> None:
    judged = judge_each(AssetSchedule(["or", [A, B]], "each"), events("abba"))
    assert judged.groups == tuple(Group(n, (n,)) for n in (1, 2, 3, 4))
    assert judged.explanation["pending"] == {"a": 2, "b": 2}


def test_all_waits_for_the_last_asset() -> None:
    judged = gathered(AND, events("aaa"))
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
    assert gathered(AND, events("aaba")).groups == (Group(3, (), 4),)


def test_what_nobody_has_judged_before_is_named_and_the_rest_counted() -> None:
    pending = events("aaba")
    merged = with_fresh(waiting(pending[:2]), pending[2:], START)
    assert {a: (w.count, w.first, w.last) for a, w in merged.items()} == {"a": (3, 1, 4), "b": (1, 3, 3)}
    judged = judge_gathered(AND, Situation(START, merged, fresh=(3, 4)))
    assert judged.groups == (Group(3, (3, 4), 2),)


def test_all_with_or_starts_at_the_first_event() -> None:
    assert judge(AssetSchedule(["or", [A, B]], "all"), events("bab")) == (Group(1, (1, 2, 3)),)


@pytest.mark.parametrize(
    ("assets", "start"), [("abc", 2), ("acb", 2), ("cab", 1), ("ddabc", 4), ("dddac", 5), ("bbbbba", 6), ("dcdabd", 2)]
)
def test_the_completing_event_is_the_first_that_makes_the_condition_true(assets: str, start: int) -> None:
    condition = ["or", [["and", [A, B]], C, ["and", [["asset", "d"], C]]]]
    assert judge(AssetSchedule(condition, "all"), events(assets))[0].start_event == start


def test_nothing_pending_makes_nothing() -> None:
    for policy in get_args(Policy):
        assert judge(AssetSchedule(A, policy, quiet=1.0), []) == ()


WINDOW = AssetSchedule(["or", [A, B]], "window", quiet=10.0, max_wait=30.0)


@pytest.mark.parametrize(
    ("assets", "now", "due", "closed_by"),
    [
        ("a", 5, 11, None),
        ("ab", 5, 12, None),
        ("ab", 12, None, "quiet"),
        ("a" * 25, 30, 31, None),
        ("a" * 25, 31, None, "max_wait"),
        ("a", 1e6, None, "quiet"),
    ],
)
def test_a_window_ends_with_quiet_or_with_the_wait_of_its_first(
    assets: str, now: float, due: float | None, closed_by: str | None
) -> None:
    """taskforcesh/bullmq#3250: a quiet period, with a limit to the wait."""
    judged = gathered(WINDOW, events(assets), now)
    assert judged.due == (None if due is None else at(due))
    assert judged.explanation["window"]["closed_by"] == closed_by
    assert judged.groups == (() if closed_by is None else (Group(1, (), len(assets)),))


def test_a_window_says_its_limits_and_its_times() -> None:
    assert gathered(WINDOW, events("ab"), 5).explanation["window"] == {
        "quiet": 10.0,
        "max_wait": 30.0,
        "first_at": "2026-01-01T00:00:01.000000Z",
        "last_at": "2026-01-01T00:00:02.000000Z",
        "due_at": "2026-01-01T00:00:12.000000Z",
        "closed_by": None,
    }


def test_a_window_whose_condition_is_not_met_waits_for_an_event_not_for_a_time() -> None:
    schedule = AssetSchedule(["and", [A, B]], "window", quiet=10.0)
    judged = gathered(schedule, events("aa"), 1e6)
    assert (judged.groups, judged.due) == ((), None)
    assert gathered(schedule, [*events("aa"), Pending(3, "b", at(1e6))], 1e6).due == at(1e6 + 10)


def test_a_window_ends_at_once_when_it_is_full() -> None:
    schedule = AssetSchedule(["or", [A, B]], "window", max_wait=1e9, max_size=3)
    judged = gathered(schedule, events("aba"), 4)
    assert judged.groups == (Group(1, (), 3),)
    assert judged.explanation["window"]["closed_by"] == "max_size"


def test_more_than_a_window_holds_makes_several_and_the_rest_waits() -> None:
    """apache/airflow#55956: no run has more events than its author allowed."""
    schedule = AssetSchedule(["or", [A, B]], "window", max_wait=100.0, max_size=3)
    pending = events("abaabab")
    assert gathered(schedule, pending, 10).in_parts
    made = parts(schedule, pending, waiting(pending), at(10))
    assert [g for g, _ in made.groups] == [Group(1, (1, 2, 3)), Group(4, (4, 5, 6))]
    assert [e["window"]["closed_by"] for _, e in made.groups] == ["max_size", "max_size"]
    assert made.due == at(107)
    late = parts(schedule, pending, waiting(pending), at(1e6))
    assert [g.members for g, _ in late.groups] == [(1, 2, 3), (4, 5, 6), (7,)]
    assert late.due is None


def test_what_was_not_read_yet_is_judged_again_at_once() -> None:
    schedule = AssetSchedule(["or", [A, B]], "window", max_wait=100.0, max_size=2)
    pending = events("ababab")
    made = parts(schedule, pending[:4], waiting(pending), at(10))
    assert [g.members for g, _ in made.groups] == [(1, 2), (3, 4)]
    assert made.due == at(10)


def test_a_part_of_joined_assets_has_one_of_each() -> None:
    """The oldest that were read are all of one asset: the other's first event goes in, too."""
    schedule = AssetSchedule(["and", [A, B]], "window", quiet=1.0, max_size=3)
    pending = events("aaaaaab")
    made = parts(schedule, pending[:3], waiting(pending), at(1e6))
    assert [g for g, _ in made.groups] == [Group(7, (1, 2, 7))]
    assert made.due == at(1e6)


LATEST = AssetSchedule(["or", [A, B]], "latest")


def test_latest_takes_the_newest_of_each_asset() -> None:
    judged = gathered(LATEST, events("abba"))
    assert judged.groups == (Group(3, (3, 4)),)
    assert judged.superseded == {"a": 4, "b": 3}


def test_latest_waits_for_room() -> None:
    judged = gathered(LATEST, events("abba"), room=0, cap=2)
    assert (judged.groups, judged.superseded, judged.for_room) == ((), {}, True)
    assert judged.explanation["limit"] == {"max_active_runs": 2}


def test_latest_of_joined_assets_waits_for_all_of_them() -> None:
    schedule = AssetSchedule(["and", [A, B]], "latest")
    judged = gathered(schedule, events("aa"))
    assert (judged.groups, judged.superseded, judged.for_room) == ((), {}, False)
    assert gathered(schedule, events("aab")).groups == (Group(3, (2, 3)),)


@pytest.mark.parametrize("policy", get_args(Policy))
def test_a_person_s_join_is_one_run_whatever_the_policy(policy: Policy) -> None:
    schedule = AssetSchedule(["or", [A, B]], policy, quiet=1e9, max_size=2 if policy == "window" else None)
    judged = gathered(schedule, events("abab"), 5, room=0, resumed={"id": 1})
    assert judged.groups == (Group(1, (), 4),)
    assert judged.explanation["resumed"] == {"id": 1}
    assert gathered(AND, events("aa"), resumed={"id": 1}).groups == ()


def test_the_filters_are_part_of_the_explanation() -> None:
    schedule = AssetSchedule(A, "each", filters={"a": ["==", "status", "paid"]})
    assert judge_each(schedule, events("a")).explanation["filters"] == {"a": 'status == "paid"'}


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
        assert judged == ()
    else:
        assert judged == (Group(start, tuple(p.event_id for p in ours)),)


@st.composite
def schedules(draw: st.DrawFn) -> AssetSchedule:
    """Every policy with a condition that it may have."""
    condition = draw(conditions())
    policy = draw(st.sampled_from(["all", "window", "latest", *(["each"] if not has_and(condition) else [])]))
    size = draw(st.none() | st.integers(len(assets_of(condition)) + 1, 15)) if policy == "window" else None
    return AssetSchedule(condition, policy, quiet=1.0, max_size=size)


@given(schedules(), queues)
def test_no_run_has_an_input_missing(schedule: AssetSchedule, pending: list[Pending]) -> None:
    """apache/airflow#56541: an AND never fires with an input missing."""
    asset = {p.event_id: p.asset for p in pending}
    for group in judge(schedule, pending):
        assert holds(schedule.condition, {asset[m] for m in group.members})


@given(schedules(), queues)
def test_every_event_is_in_one_run_at_most(schedule: AssetSchedule, pending: list[Pending]) -> None:
    judged = judge(schedule, pending)
    members = [m for group in judged for m in group.members]
    assert len(members) == len(set(members))
    assert set(members) <= {p.event_id for p in pending}
    assert all(group.start_event in (group.members) for group in judged)
    assert all(list(group.members) == sorted(group.members) for group in judged)
    assert all(len(group.members) <= (schedule.max_size or 99) for group in judged)


@given(schedules(), queues)
def test_what_is_left_when_all_is_judged_makes_no_further_run(schedule: AssetSchedule, pending: list[Pending]) -> None:
    """In parts it may take several judgements, which the first asks for; each takes something."""
    left = [p for p in pending if p.asset in assets_of(schedule.condition)]
    for _ in range(len(left) + 1):
        groups = judge(schedule, left)
        taken = {m for group in groups for m in group.members}
        left = [] if schedule.policy == "latest" and groups else [p for p in left if p.event_id not in taken]
        if not groups:
            break
        if not has_and(schedule.condition):
            assert judge(schedule, left) == ()
    assert not left or not holds(schedule.condition, {p.asset for p in left})


@given(conditions(), queues, st.data())
def test_judging_in_portions_loses_nothing(condition: list[Any], pending: list[Pending], data: st.DataObject) -> None:
    """However the arrivals are cut, what is left at the end does not satisfy the condition."""
    schedule = AssetSchedule(condition, "all")
    left: list[Pending] = []
    consumed: list[int] = []
    while pending:
        size = data.draw(st.integers(1, len(pending)))
        left, pending = left + pending[:size], pending[size:]
        taken = {m for group in judge(schedule, left) for m in group.members}
        consumed += taken
        left = [p for p in left if p.event_id not in taken]
    assert len(consumed) == len(set(consumed))
    assert not holds(condition, {p.asset for p in left})


def test_many_events_leave_a_small_explanation() -> None:
    pending = [Pending(n, "ab"[n % 2], START) for n in range(50_000)]
    each = judge_each(AssetSchedule(["or", [A, B]], "each"), pending)
    assert len(each.groups) == 50_000
    assert len(json.dumps(each.explanation)) < 500
    assert len(json.dumps(gathered(AND, pending).explanation)) < 500


def test_a_wide_and_asks_the_condition_only_a_few_times() -> None:
    """A thousand assets: the completing one is found by halving."""

    class Counting(list):
        asked = 0

        def __iter__(self):
            Counting.asked += 1
            return super().__iter__()

    names = [f"n{n}" for n in range(1_000)]
    condition = ["and", Counting(["asset", n] for n in names)]
    wait = {name: Waiting(1, n, n, START, START) for n, name in enumerate(names)}
    judged = judge_gathered(AssetSchedule(condition, "all"), Situation(START, wait))
    assert judged.groups[0].start_event == 999
    assert Counting.asked < 20


def test_default_policy() -> None:
    assert default_policy(A) == "each"
    assert default_policy(["or", [A, B]]) == "each"
    assert default_policy(["or", [A, ["and", [B, C]]]]) == "all"


@given(conditions())
def test_the_default_policy_always_fits(condition: list[Any]) -> None:
    assert check_policy(condition, default_policy(condition)) == default_policy(condition)
    for policy in ("all", "window", "latest"):
        assert check_policy(condition, policy) == policy


def test_each_with_and_is_refused_with_what_to_do() -> None:
    with pytest.raises(DagError, match="one run per event") as refused:
        check_policy(["and", [A, B]], "each", "d.py:3")
    assert refused.value.where == "d.py:3"
    assert "All()" in refused.value.remedy


def test_a_window_too_small_for_its_condition_is_refused() -> None:
    with pytest.raises(DagError, match="no place for an event of each of the 3 assets") as refused:
        check_policy(["and", [A, B, C]], "window", "d.py:3", max_size=2)
    assert "3 or more" in refused.value.remedy
    assert check_policy(["and", [A, B, C]], "window", max_size=3) == "window"
    assert check_policy(["or", [A, B, C]], "window", max_size=2) == "window"


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    unknown: Any = "some"
    with pytest.raises(DagError, match="each, all, window, latest"):
        check_policy(A, unknown, "d.py:3")
