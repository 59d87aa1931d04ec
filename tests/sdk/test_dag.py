from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pendulum
import pytest
from authoring import edges, file_of, spec_of, task_of

from onceflow import (
    DAG,
    All,
    Asset,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    Each,
    EmptyOperator,
    Label,
    Param,
    TaskGroup,
    chain,
    cross_downstream,
    dag,
    task,
    task_group,
)
from onceflow.model.dagspec import (
    AssetSchedule,
    ContinuousSchedule,
    CronSchedule,
    IntervalSchedule,
    NoSchedule,
    OnceSchedule,
)
from onceflow.model.errors import DagError

A, B, C = Asset("a"), Asset("b"), Asset("c")


def nothing(*task_ids: str) -> list[EmptyOperator]:
    return [EmptyOperator(task_id=task_id) for task_id in task_ids]


@pytest.mark.parametrize(
    ("schedule", "stored"),
    [
        (None, NoSchedule()),
        ("@once", OnceSchedule()),
        ("@continuous", ContinuousSchedule()),
        ("@daily", CronSchedule("0 0 * * *")),
        ("*/5 * * * *", CronSchedule("*/5 * * * *")),
        (timedelta(minutes=90), IntervalSchedule(5400.0)),
        (CronTriggerTimetable("0 6 * * *", timezone="Europe/Berlin"), CronSchedule("0 6 * * *", "Europe/Berlin")),
        (
            CronTriggerTimetable("0 6 * * *", timezone=pendulum.timezone("Asia/Tokyo")),
            CronSchedule("0 6 * * *", "Asia/Tokyo"),
        ),
        (DeltaTriggerTimetable(timedelta(hours=6)), IntervalSchedule(21600.0)),
        (A, AssetSchedule(["asset", "a"], "each")),
        ([A], AssetSchedule(["asset", "a"], "each")),
        ([A, B], AssetSchedule(["and", [["asset", "a"], ["asset", "b"]]], "all")),
        (A & B & C, AssetSchedule(["and", [["asset", "a"], ["asset", "b"], ["asset", "c"]]], "all")),
        (A | B, AssetSchedule(["or", [["asset", "a"], ["asset", "b"]]], "each")),
        (A & (B | C), AssetSchedule(["and", [["asset", "a"], ["or", [["asset", "b"], ["asset", "c"]]]]], "all")),
    ],
)
def test_schedules(schedule: object, stored: object) -> None:
    assert spec_of(DAG("d", schedule=schedule)).schedule == stored


@pytest.mark.parametrize(
    "schedule", ["@sometimes", "every day", "61 * * * *", 5, object(), [A, "b"], [], timedelta(0), timedelta(days=-1)]
)
def test_an_unknown_schedule_is_refused_with_its_place_and_what_is_allowed(schedule: object) -> None:
    with pytest.raises(DagError) as refused:
        DAG("d", schedule=schedule)
    assert refused.value.where.startswith(__file__)
    assert refused.value.remedy


def test_cron_runs_in_the_zone_of_the_start_date() -> None:
    for start in (
        datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Paris")),
        pendulum.datetime(2026, 1, 1, tz="Europe/Paris"),
    ):
        spec = spec_of(DAG("d", schedule="0 6 * * *", start_date=start))
        assert spec.schedule == CronSchedule("0 6 * * *", "Europe/Paris")
        assert spec.start_date == datetime(2025, 12, 31, 23, tzinfo=UTC)
        assert type(spec.start_date) is datetime


def test_naive_dates_are_utc_and_utc_is_utc_however_written() -> None:
    for start in (datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), pendulum.datetime(2026, 1, 1)):
        spec = spec_of(DAG("d", schedule="@daily", start_date=start))
        assert (spec.start_date, spec.schedule) == (datetime(2026, 1, 1, tzinfo=UTC), CronSchedule("0 0 * * *"))


def test_a_zone_without_a_name_is_refused_for_cron() -> None:
    with pytest.raises(DagError, match="named time zone"):
        DAG("d", schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5.5))))


def test_consume_may_be_said_and_must_fit() -> None:
    assert spec_of(DAG("d", schedule=A | B, consume=All())).schedule.policy == "all"
    assert spec_of(DAG("d", schedule=A, consume=Each())).schedule.policy == "each"
    with pytest.raises(DagError, match="Each"):
        DAG("d", schedule=A & B, consume=Each())
    with pytest.raises(DagError, match="no assets"):
        DAG("d", schedule="@daily", consume=All())
    with pytest.raises(DagError, match="consume"):
        DAG("d", schedule=A, consume="each")


def test_continuous_has_one_run_at_a_time() -> None:
    assert spec_of(DAG("d", schedule="@continuous")).max_active_runs == 1
    with pytest.raises(DagError, match="max_active_runs=2"):
        DAG("d", schedule="@continuous", max_active_runs=2)


def test_every_argument_of_a_dag_reaches_the_spec() -> None:
    made = DAG(
        "d",
        start_date=datetime(2026, 1, 1),
        end_date=datetime(2027, 1, 1),
        catchup=True,
        max_active_runs=3,
        max_active_tasks=4,
        dagrun_timeout=timedelta(hours=1),
        params={"x": Param(5, type="integer", minimum=1, description="how many"), "y": "z", "n": Param(type="string")},
        tags=["one", "two"],
        description="what it is",
        doc_md="# more",
        owner="me",
        previous_id="old",
        is_paused_upon_creation=True,
    )
    spec = spec_of(made)
    assert (spec.catchup, spec.max_active_runs, spec.max_active_tasks, spec.dagrun_timeout) == (True, 3, 4, 3600.0)
    assert (spec.description, spec.doc, spec.tags, spec.owner) == ("what it is", "# more", ("one", "two"), "me")
    assert (spec.previous_id, spec.paused_on_creation) == ("old", True)
    assert spec.params == {"x": 5, "y": "z"}
    assert spec.param_schemas["x"] == {"type": "integer", "minimum": 1, "description": "how many"}
    assert spec.end_date == datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_active_run": 3}, "max_active_runs"),
        ({"schedule_interval": "@daily"}, "use schedule="),
        ({"max_active_runs": 0}, "1 or more"),
        ({"start_date": "2026-01-01"}, "a datetime"),
        ({"tags": "etl"}, "a list of texts"),
        ({"params": ["x"]}, "give a dict"),
        ({"params": {"x": object()}}, "x"),
        ({"dagrun_timeout": timedelta(0)}, "more than 0"),
    ],
)
def test_a_wrong_argument_names_itself_its_place_and_the_remedy(options: dict[str, object], words: str) -> None:
    with pytest.raises(DagError) as refused:
        spec_of(DAG("d", **options))
    assert words in str(refused.value)
    assert refused.value.where.startswith(__file__)


def test_arguments_of_airflow_without_effect_are_named_unless_at_their_default() -> None:
    made = DAG(
        "d", fail_fast=True, render_template_as_native_obj=False, default_args={"depends_on_past": True, "email": "x"}
    )
    EmptyOperator(task_id="t", dag=made, pool="small", weight_rule="downstream")
    found = " ".join(file_of(made).warnings)
    for name in ("fail_fast", "depends_on_past", "pool"):
        assert f"{name} of" in found
    assert "render_template" not in found and "weight_rule" not in found and "email" not in found


def test_a_misspelt_default_argument_is_told() -> None:
    made = DAG("d", default_args={"retrys": 3, "owner": "me"})
    EmptyOperator(task_id="t", dag=made)
    assert any("retrys" in w and "retries" in w for w in file_of(made).warnings)
    assert spec_of(made).owner == "me"


@pytest.mark.parametrize("bad", ["", "a b", "ä/b", "x" * 251, 5, None])
def test_ids(bad: object) -> None:
    with pytest.raises(DagError, match="dag_id"):
        DAG(bad)


def test_order_of_tasks_in_all_its_spellings() -> None:
    with DAG("d") as made:
        a, b, c, d, e, f, g = nothing(*"abcdefg")
        a >> [b, c] >> d
        e << d
        chain(e, [f, g])
        f >> Label("then") >> g
        g.set_upstream(a)
    expected = {
        ("a", "b"),
        ("a", "c"),
        ("b", "d"),
        ("c", "d"),
        ("d", "e"),
        ("e", "f"),
        ("e", "g"),
        ("f", "g"),
        ("a", "g"),
    }
    assert edges(made) == expected


def test_chain_pairs_lists_and_cross_downstream_joins_each_with_each() -> None:
    with DAG("d") as made:
        a, b, c, d, e, f = nothing(*"abcdef")
        chain([a, b], [c, d])
        cross_downstream([c, d], [e, f])
        with pytest.raises(DagError, match="2 and 1"):
            chain([a, b], [c])
    assert edges(made) == {("a", "c"), ("b", "d"), ("c", "e"), ("c", "f"), ("d", "e"), ("d", "f")}


def test_only_tasks_can_be_put_in_order() -> None:
    with DAG("d"):
        [a] = nothing("a")
        with pytest.raises(DagError, match="cannot stand in an order"):
            a >> "b"


def test_a_cycle_is_refused_with_the_tasks_and_a_place() -> None:
    with DAG("d") as made:
        a, b, c = nothing(*"abc")
        a >> b >> c >> a
    with pytest.raises(DagError, match="a >> b >> c >> a") as refused:
        spec_of(made)
    assert refused.value.where.startswith(__file__)


def test_a_task_id_is_there_once() -> None:
    with DAG("d"):
        nothing("a")
        with pytest.raises(DagError, match="two tasks named 'a'") as refused:
            nothing("a")
    assert refused.value.where.startswith(__file__)


def test_two_dags_of_one_name_in_a_file() -> None:
    with pytest.raises(DagError, match="two DAGs are named 'd'"):
        file_of(DAG("d"), DAG("d"))


def test_tasks_of_two_dags_cannot_be_joined() -> None:
    one, two = DAG("one"), DAG("two")
    with pytest.raises(DagError, match="different DAGs are put in order: one and two"):
        EmptyOperator(task_id="a", dag=one) >> EmptyOperator(task_id="b", dag=two)


def test_a_task_without_a_dag_joins_its_neighbours() -> None:
    made = DAG("d")
    EmptyOperator(task_id="a", dag=made) >> EmptyOperator(task_id="b")
    assert edges(made) == {("a", "b")}


def test_groups_prefix_ids_and_stand_as_one() -> None:
    with DAG("d", default_args={"retries": 1}) as made:
        start, end = nothing("start", "end")
        with TaskGroup("g", default_args={"retries": 2}) as outer:
            a, b = nothing("a", "b")
            a >> b
            with TaskGroup("inner"):
                nothing("c")
        start >> outer >> end
    assert edges(made) == {
        ("start", "g.a"),
        ("start", "g.inner.c"),
        ("g.a", "g.b"),
        ("g.b", "end"),
        ("g.inner.c", "end"),
    }
    assert task_of(made, "g.inner.c").retries == 2
    assert task_of(made, "start").retries == 1


def test_a_group_may_leave_ids_alone_and_is_there_once() -> None:
    with DAG("d") as made:
        with TaskGroup("g", prefix_group_id=False):
            nothing("a")
        with pytest.raises(DagError, match="named 'g'"):
            TaskGroup("g")
    assert made.task_ids == ["a"]


def test_a_group_function_makes_a_group_per_call_and_may_return_a_result() -> None:
    @task
    def double(x: int) -> int:
        return 2 * x

    @task_group
    def twice(x: int):
        return double(double(x))

    with DAG("d") as made:
        double(twice(twice(1)))
    assert made.task_ids == ["twice.double", "twice.double__1", "twice__1.double", "twice__1.double__1", "double"]
    assert ("twice.double__1", "twice__1.double") in edges(made)


def test_a_dag_function_has_its_arguments_as_params() -> None:
    @dag(schedule="@daily", tags=["x"])
    def report(day: str = "monday"):
        """What it reports."""

        @task
        def show(value: str) -> None: ...

        show(day)

    made = report()
    spec = spec_of(made)
    assert (spec.dag_id, spec.doc, spec.params) == ("report", "What it reports.", {"day": "monday"})
    assert spec_of(report("friday")).params == {"day": "friday"}


def test_the_bare_dag_decorator() -> None:
    @dag
    def plain():
        nothing("a")

    assert plain().task_ids == ["a"]


def test_setup_and_teardown() -> None:
    with DAG("d") as made:
        make, work, clean = nothing("make", "work", "clean")
        make >> work >> clean.as_teardown(setups=make)
    assert task_of(made, "make").is_setup
    assert task_of(made, "clean").is_teardown
    assert task_of(made, "clean").trigger_rule == "all_done_setup_success"
    assert edges(made) == {("make", "work"), ("work", "clean"), ("make", "clean")}


def test_a_teardown_opens_a_block() -> None:
    with DAG("d") as made:
        make, clean = nothing("make", "clean")
        with clean.as_teardown(setups=make):
            a, b = nothing("a", "b")
            a >> b
    assert edges(made) == {("make", "clean"), ("make", "a"), ("a", "b"), ("b", "clean")}
