"""Specs survive the way through JSON; the hash says whether a DAG means something else than before."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import conditions, dags

from onceflow.model.dagspec import (
    FORMAT,
    AssetSchedule,
    AssetSpec,
    ContinuousSchedule,
    CronSchedule,
    DagSpec,
    FileSpec,
    IntervalSchedule,
    NoSchedule,
    OnceSchedule,
    ParseFailure,
    TaskSpec,
    WatcherSpec,
)
from onceflow.model.errors import UnsupportedError
from onceflow.model.serialize import (
    dag_spec_from_json,
    failure_from_json,
    file_spec_from_json,
    spec_hash,
    to_json,
)
from onceflow.model.states import TriggerRule

FULL_TASK = TaskSpec(
    task_id="load",
    upstream=("extract",),
    trigger_rule=TriggerRule.NONE_FAILED,
    retries=2,
    retry_delay=1.5,
    retry_exponential_backoff=2.0,
    max_retry_delay=60.0,
    execution_timeout=10.0,
    outlets=("out",),
    inlets=("in",),
    priority_weight=3,
    queue="big",
    executor="celery",
    isolation="fresh",
    is_setup=True,
    is_teardown=True,
    on_failure_fail_dagrun=True,
    ignore_downstream_trigger_rules=False,
    operator="branch",
    doc="loads",
    where="d.py:7",
)
FULL_DAG = DagSpec(
    dag_id="d",
    schedule=AssetSchedule(["or", [["asset", "in"], ["asset", "other"]]], "each"),
    tasks=(TaskSpec("extract", where="d.py:5"), FULL_TASK),
    file="d.py",
    where="d.py:3",
    description="short",
    doc="long",
    tags=("x", "y"),
    owner="me",
    start_date=datetime(2026, 1, 1, 12, 30, 15, 250, tzinfo=UTC),
    end_date=datetime(2027, 1, 1, tzinfo=UTC),
    catchup=True,
    max_active_runs=3,
    max_active_tasks=4,
    max_rounds=2,
    max_runs_per_minute=100,
    dagrun_timeout=3600.0,
    params={"where": "here", "n": {"$onceflow": "tuple", "value": [1]}},
    param_schemas={"n": {"type": "array"}},
    while_paused="discard",
    paused_on_creation=False,
    previous_id="old",
)
WATCHER = WatcherSpec("w", "triggers.Rows", {"table": "t"}, file="triggers.py", where="d.py:9")
FULL_FILE = FileSpec(
    path="d.py",
    source_hash="ab" * 16,
    dags=(FULL_DAG,),
    assets=(AssetSpec("in", "s3://in", "asset", {"k": [1]}, (WATCHER,), "d.py:2"), AssetSpec("out")),
    warnings=("one",),
    starts_threads=True,
)
SCHEDULES = [
    NoSchedule(),
    OnceSchedule(),
    ContinuousSchedule(),
    CronSchedule("0 9 * * *", "Europe/Berlin"),
    IntervalSchedule(0.25),
    AssetSchedule(["and", [["asset", "a"], ["or", [["asset", "b"], ["asset", "c"]]]]], "all"),
    AssetSchedule(["asset", "a"], "window", 1.5, 60.0, 10, {"a": ["and", [["==", "b.c", "d"], ["exists", "e", None]]]}),
]


def through_text(value: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(value, allow_nan=False))


def test_a_file_comes_back_equal() -> None:
    assert file_spec_from_json(through_text(to_json(FULL_FILE))) == FULL_FILE


def test_the_full_examples_leave_no_field_at_its_default() -> None:
    """So that a new field that the way through JSON forgets is noticed above."""
    for spec in (FULL_DAG, FULL_TASK, FULL_FILE):
        for f in fields(spec):
            assert f.name == "format" or getattr(spec, f.name) != f.default, f.name


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.kind)
def test_every_schedule_comes_back_equal(schedule: Any) -> None:
    dag = replace(FULL_DAG, schedule=schedule)
    back = dag_spec_from_json(through_text(to_json(dag)))
    assert back == dag
    assert type(back.schedule) is type(schedule)


def test_a_failure_comes_back_equal() -> None:
    failure = ParseFailure("d.py", "00", "bad_dag", "a cycle", "d.py:3", "remove an edge", "Traceback ...")
    assert failure_from_json(through_text(to_json(failure))) == failure


@given(dags(), conditions())
def test_any_dag_comes_back_equal_and_with_its_hash(dag: DagSpec, condition: list[Any]) -> None:
    dag = replace(dag, schedule=AssetSchedule(condition, "all"))
    back = dag_spec_from_json(through_text(to_json(dag)))
    assert back == dag
    assert spec_hash(back) == spec_hash(dag)


def test_times_become_utc() -> None:
    local = datetime(2026, 7, 1, 2, tzinfo=ZoneInfo("Europe/Berlin"))
    dag = replace(FULL_DAG, start_date=local)
    assert to_json(dag)["start_date"] == "2026-07-01T00:00:00.000000Z"
    assert dag_spec_from_json(to_json(dag)).start_date == local


def test_an_older_or_newer_writer_is_understood() -> None:
    small = {"dag_id": "d", "schedule": {"kind": "none"}, "tasks": [{"task_id": "t"}], "file": "d.py"}
    assert dag_spec_from_json(small) == DagSpec("d", NoSchedule(), (TaskSpec("t"),), "d.py")
    assert dag_spec_from_json({**small, "colour": "red"}) == dag_spec_from_json(small)


def test_a_newer_format_is_refused_with_what_to_do() -> None:
    with pytest.raises(UnsupportedError, match=f"format {FORMAT + 1}.*upgrade"):
        dag_spec_from_json({**to_json(FULL_DAG), "format": FORMAT + 1})


def moved(dag: DagSpec) -> DagSpec:
    """The same DAG, further down in its file."""
    tasks = tuple(replace(t, where=f"{dag.file}:{900 + n}") for n, t in enumerate(dag.tasks))
    return replace(dag, where=f"{dag.file}:899", tasks=tasks)


@given(dags())
def test_the_hash_does_not_depend_on_the_place_in_the_file(dag: DagSpec) -> None:
    assert spec_hash(moved(dag)) == spec_hash(dag)


def test_the_hash_does_not_depend_on_the_order_of_dictionaries() -> None:
    turned = dict(reversed(FULL_DAG.params.items()))
    assert spec_hash(replace(FULL_DAG, params=turned)) == spec_hash(FULL_DAG)


def test_a_param_that_is_named_where_counts() -> None:
    assert spec_hash(replace(FULL_DAG, params={"where": "there"})) != spec_hash(replace(FULL_DAG, params={}))


def test_the_hash_is_pinned() -> None:
    """A change here gives every DAG of every user a new version; then raise dagspec.FORMAT on purpose."""
    assert spec_hash(DagSpec("d", NoSchedule(), (TaskSpec("t"),), "d.py")) == "45a72e9fe21c447c739c60f0a487bb89"


CHANGED = {
    "tasks": FULL_DAG.tasks[:1],
    "schedule": NoSchedule(),
    "tags": ("x",),
    "start_date": None,
    "end_date": None,
    "params": {},
    "param_schemas": {},
    "paused_on_creation": True,
}


@pytest.mark.parametrize("name", [f.name for f in fields(DagSpec) if f.name != "where"])
def test_every_other_field_of_a_dag_changes_the_hash(name: str) -> None:
    old = getattr(FULL_DAG, name)
    new = CHANGED[name] if name in CHANGED else _other(old)
    assert spec_hash(replace(FULL_DAG, **{name: new})) != spec_hash(FULL_DAG)


@pytest.mark.parametrize("name", [f.name for f in fields(TaskSpec) if f.name != "where"])
def test_every_other_field_of_a_task_changes_the_hash(name: str) -> None:
    task = replace(FULL_TASK, **{name: _other(getattr(FULL_TASK, name))})
    assert spec_hash(replace(FULL_DAG, tasks=(FULL_DAG.tasks[0], task))) != spec_hash(FULL_DAG)


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, TriggerRule):
        return TriggerRule.ALWAYS
    if isinstance(value, tuple):
        return ()
    return value + ("!" if isinstance(value, str) else 1)


@given(st.text(max_size=20))
def test_any_text_survives(text: str) -> None:
    dag = replace(FULL_DAG, doc=text)
    assert dag_spec_from_json(through_text(to_json(dag))).doc == text
