"""How a DAG says what it consumes: every combination is legal, or refused with the reason and what to do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from authoring import spec_of

from onceflow import DAG, All, Asset, Each, Filter, Latest, Window
from onceflow.model.dagspec import AssetSchedule
from onceflow.model.errors import DagError
from onceflow.model.spec_json import dag_spec_from_json, to_json

A, B, C = Asset("a"), Asset("b"), Asset("c")
PAID = Filter("status", "==", "paid")
CONDITIONS: dict[str, Any] = {
    "a": A,
    "a | b": A | B,
    "a & b": A & B,
    "[a, b]": [A, B],
    "a & (b | c)": A & (B | C),
    "a | (b & c)": A | (B & C),
}
POLICIES: dict[str, Any] = {
    "default": None,
    "Each()": Each(),
    "Each": Each,
    "All()": All(),
    "Latest()": Latest(),
    "Latest": Latest,
    "Window(quiet)": Window(quiet=5),
    "Window(max_wait)": Window(max_wait=timedelta(minutes=1)),
    "Window(quiet, max_wait, max_size)": Window(quiet=5, max_wait=60, max_size=3),
    "Window(small)": Window(max_wait=60, max_size=2),
}
JOINED = {"a & b": 2, "[a, b]": 2, "a & (b | c)": 3, "a | (b & c)": 3}


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_policy_with_every_condition(condition: str, policy: str, filtered: bool) -> None:
    schedule = CONDITIONS[condition]
    if filtered:
        parts = schedule if isinstance(schedule, list) else [schedule]
        schedule = _with_filter(parts)
    refused = ""
    if condition in JOINED and policy.startswith("Each"):
        refused = "one run per event"
    elif JOINED.get(condition, 0) > 2 and policy == "Window(small)":
        refused = "no place for an event of each of the 3 assets"
    if refused:
        with pytest.raises(DagError, match=refused) as error:
            DAG("d", schedule=schedule, consume=POLICIES[policy])
        assert error.value.remedy
        return
    spec = spec_of(DAG("d", schedule=schedule, consume=POLICIES[policy]))
    found = spec.schedule
    assert isinstance(found, AssetSchedule)
    default = "all" if condition in JOINED else "each"
    assert found.policy == (default if policy == "default" else policy.partition("(")[0].lower())
    assert found.filters == ({"a": ["==", "status", "paid"]} if filtered else {})
    assert dag_spec_from_json(to_json(spec)) == spec


def _with_filter(parts: list[Any]) -> Any:
    """The same condition with a filter on `a`."""
    if len(parts) == 2:
        return [A.when(PAID), B]
    filtered = A.when("status", "==", "paid")
    return {
        str(A): filtered,
        str(A | B): filtered | B,
        str(A & B): filtered & B,
        str(A & (B | C)): filtered & (B | C),
        str(A | (B & C)): filtered | (B & C),
    }[str(parts[0])]


def test_a_window_s_limits_are_stored_in_seconds() -> None:
    window = Window(quiet=timedelta(minutes=1), max_wait=3600, max_size=50)
    found = spec_of(DAG("d", schedule=A, consume=window)).schedule
    assert isinstance(found, AssetSchedule)
    assert (found.quiet, found.max_wait, found.max_size) == (60.0, 3600.0, 50)
    assert repr(window) == "Window(quiet=60, max_wait=3600, max_size=50)"


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        ({}, "no end", "quiet= or max_wait="),
        ({"max_size": 5}, "the last events would wait for ever", "quiet= or max_wait="),
        ({"quiet": 0}, "quiet of a Window is 0", "more than 0"),
        ({"quiet": "5"}, "quiet of a Window is '5'", "a number of seconds"),
        ({"quiet": 5, "max_size": 2**70}, "max_size of a Window is 1180591620717411303424", "2147483647"),
        ({"quiet": 5, "max_size": 1}, "max_size of a Window is 1", "2 or more"),
        ({"quiet": 60, "max_wait": 30}, "never waits for quiet", "longer than quiet"),
        ({"quiet": 60, "max_wait": 60}, "never waits for quiet", "longer than quiet"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(arguments: Any, message: str, remedy: str) -> None:
    with pytest.raises(DagError, match=message) as refused:
        Window(**arguments)
    assert remedy in refused.value.remedy
    assert "test_consume.py" in refused.value.where


@pytest.mark.parametrize(
    ("schedule", "options", "message", "remedy"),
    [
        (A, {"consume": "each"}, "consume of DAG 'd' is 'each'", "Each(), All(), Latest(), Window("),
        (A, {"consume": Window}, "consume of DAG 'd' is", "Window(quiet="),
        ("@daily", {"consume": Latest()}, "no assets in its schedule", "leave consume out"),
        (None, {"consume": Window(quiet=1)}, "no assets in its schedule", "leave consume out"),
        ("@daily", {"while_paused": "discard"}, "no assets in its schedule", "leave while_paused out"),
        (A, {"while_paused": "drop"}, "while_paused of DAG 'd' is 'drop'", "hold, discard"),
        (A.when(PAID) | A, {}, "names asset 'a' twice, with `status == \"paid\"` and no filter", "one filter"),
        (A.when(PAID) & A.when("x", ">", 1), {}, "names asset 'a' twice", "one filter"),
    ],
)
def test_what_does_not_fit_together_is_refused(schedule: Any, options: Any, message: str, remedy: str) -> None:
    with pytest.raises(DagError, match=message) as refused:
        DAG("d", schedule=schedule, **options)
    assert remedy in refused.value.remedy
    assert "test_consume.py" in refused.value.where


def test_an_asset_may_be_named_twice_with_the_same_filter() -> None:
    found = spec_of(DAG("d", schedule=A.when(PAID) | (A.when(PAID) & B))).schedule
    assert isinstance(found, AssetSchedule)
    assert found.filters == {"a": ["==", "status", "paid"]}


def test_filters_are_combined() -> None:
    wanted = PAID & (Filter("total", ">", 100) | Filter("vip", "exists")) & ~Filter("country", "in", ["US"])
    assert repr(wanted) == 'Filter(status == "paid" & (total > 100 | vip exists) & ~(country in ["US"]))'
    schedule = spec_of(DAG("d", schedule=A.when(PAID).when("total", ">", 100))).schedule
    assert isinstance(schedule, AssetSchedule)
    assert schedule.filters["a"] == ["and", [["==", "status", "paid"], [">", "total", 100]]]


def test_a_filter_has_no_truth_so_that_none_is_lost_by_and_or_not() -> None:
    for wrong in (lambda: PAID and PAID, lambda: not PAID):
        with pytest.raises(DagError, match="no truth") as refused:
            wrong()
        assert "&, | and ~" in refused.value.remedy


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: PAID & "x", "no filter"),
        (lambda: A.when(PAID, "==", 1), "and more"),
        (lambda: A.when("status"), "no operator None"),
        (lambda: A.when(5, "==", 1), "field is 5"),
    ],
)
def test_a_wrong_filter_is_refused_with_its_place(wrong: Any, message: str) -> None:
    with pytest.raises(DagError, match=message) as refused:
        wrong()
    assert "test_consume.py" in refused.value.where


def test_a_filter_too_deep_is_refused() -> None:
    wanted = PAID
    with pytest.raises(DagError, match="nested more than 50"):
        for _ in range(60):
            wanted = ~wanted


def test_a_filtered_asset_is_no_outlet() -> None:
    from onceflow import EmptyOperator

    wrong: Any = A.when(PAID)
    with pytest.raises(DagError):
        EmptyOperator(task_id="t", outlets=[wrong])


def test_latest_runs_one_at_a_time_unless_told_otherwise() -> None:
    assert spec_of(DAG("d", schedule=A, consume=Latest())).max_active_runs == 1
    assert spec_of(DAG("d", schedule=A, consume=Latest(), max_active_runs=3)).max_active_runs == 3
    assert spec_of(DAG("d", schedule=A, consume=All())).max_active_runs == 16


def test_while_paused_is_stored() -> None:
    assert spec_of(DAG("d", schedule=A)).while_paused == "hold"
    assert spec_of(DAG("d", schedule=A, while_paused="discard")).while_paused == "discard"


def test_a_filter_on_the_source_is_data() -> None:
    untagged = ~Filter.source("lane", "exists") & PAID
    spec = spec_of(DAG("d", schedule=A.when(untagged)))
    assert isinstance(spec.schedule, AssetSchedule)
    assert spec.schedule.filters["a"] == ["and", [["not", ["source", ["exists", "lane", None]]], PAID.data]]
    assert dag_spec_from_json(to_json(spec)) == spec
    assert repr(untagged) == 'Filter(~(source(lane exists)) & status == "paid")'
    with pytest.raises(DagError, match="no operator 'is'"):
        Filter.source("lane", "is", 1)  # type: ignore[arg-type]
