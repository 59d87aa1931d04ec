from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from authoring import Store, event, run_task

from onceflow import (
    DAG,
    Asset,
    BaseOperator,
    BaseSensorOperator,
    BashOperator,
    BranchPythonOperator,
    Context,
    EmptyOperator,
    FailTask,
    Metadata,
    PokeReturnValue,
    PythonOperator,
    SkipTask,
    TaskGroup,
    get_current_context,
    task,
)
from onceflow.model.serialize import TAG

ORDERS, SUMS = Asset("orders"), Asset("sums")


def single(function: Any, **options: Any) -> DAG:
    """A DAG of one task, named "t"."""
    with DAG("d") as made:
        task(task_id="t", **options)(function)()
    return made


def test_results_travel_through_arguments_nested_and_by_key() -> None:
    @task
    def start() -> dict[str, int]:
        return {"a": 1, "b": 2}

    @task
    def join(parts: list[Any], whole: dict[str, int]) -> Any:
        return parts, whole

    with DAG("d") as made:
        s = start()
        join([s["a"], {"b": s["b"]}], whole=s)
    store = Store()
    assert run_task(made, "start", store).value == {"a": 1, "b": 2}
    assert store.xcoms["start", "a"] == 1
    result = run_task(made, "join", store)
    assert result.value == {TAG: "tuple", "value": [[1, {"b": 2}], {"a": 1, "b": 2}]}


def test_a_key_of_a_result_without_multiple_outputs_is_looked_up_in_it() -> None:
    @task(multiple_outputs=False)
    def start() -> dict[str, int]:
        return {"a": 1}

    @task
    def show(x: int) -> int:
        return x

    with DAG("d") as made:
        show(start()["a"])
    store = Store()
    run_task(made, "start", store)
    assert list(store.xcoms) == [("start", "return_value")]
    assert run_task(made, "show", store).value == 1


def test_a_run_leaves_the_dag_as_it_was_written() -> None:
    @task
    def show(x: int) -> int:
        return x

    with DAG("d") as made:
        first = show(1)
        show(first)
    store = Store()
    run_task(made, "show", store)
    assert [run_task(made, "show__1", store).value for _ in range(2)] == [1, 1]


def test_values_keep_their_types() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    @task
    def give() -> Any:
        return {"t": (1, 2), "at": moment, "s": {3}}

    @task
    def check(value: Any) -> bool:
        return value == {"t": (1, 2), "at": moment, "s": {3}}

    with DAG("d") as made:
        check(give())
    store = Store()
    run_task(made, "give", store)
    assert run_task(made, "check", store).value is True


def test_nothing_is_fetched_that_is_not_used() -> None:
    store = Store(events=[event(1, "orders")])
    assert run_task(single(lambda: 5), "t", store).value == 5
    assert store.asked == []


def test_the_context_in_all_its_forms() -> None:
    def everything(ti: Any = None, params: Any = None, **context: Any) -> Any:
        same = get_current_context()
        assert same["ti"] is ti and context["run_id"] == same["run_id"] == ti.run_id
        return [params, context["ds"], str(context["logical_date"]), ti.try_number, ti.fence_token, context["conf"]]

    run = {"run_id": "scheduled__1", "run_type": "scheduled", "logical_date": "2026-01-31T00:00:00Z", "conf": {"c": 1}}
    result = run_task(single(everything), "t", run=run, params={"x": 1}, try_number=2, token="tok", attempt=3)
    assert result.value == [{"x": 1, "c": 1}, "2026-01-31", "2026-01-31 00:00:00+00:00", 2, "tok", {"c": 1}]


def test_a_run_without_a_logical_date_says_so() -> None:
    consumer = {"run_type": "asset_triggered"}
    result = run_task(single(lambda: get_current_context()["ds"]), "t", run=consumer)
    assert result.error is not None and "no logical date" in result.error["message"]
    assert run_task(single(lambda ds=None: ds), "t", run=consumer).value is None
    assert run_task(single(lambda ds, logical_date: [ds, logical_date]), "t").value == ["2026-01-31", None]


def test_there_is_no_context_outside_of_a_task() -> None:
    with pytest.raises(RuntimeError, match="inside a running task"):
        get_current_context()


def test_xcom_push_and_pull() -> None:
    def push(ti: Any) -> None:
        ti.xcom_push("rows", [1, 2])
        assert ti.xcom_pull(key="rows") == [1, 2]

    def pull(ti: Any) -> Any:
        return [
            ti.xcom_pull("push", "rows"),
            ti.xcom_pull(task_ids=["push", "none"], key="rows"),
            ti.xcom_pull("none", default=7),
        ]

    with DAG("d") as made:
        PythonOperator(task_id="push", python_callable=push) >> PythonOperator(task_id="pull", python_callable=pull)
    store = Store()
    run_task(made, "push", store)
    assert run_task(made, "pull", store).value == [[1, 2], [[1, 2], None], 7]


def test_params_have_defaults_conf_and_references() -> None:
    @task
    def show(x: int, params: Any = None) -> Any:
        return [x, params["x"]]

    with DAG("d", params={"x": 1}) as made:
        show(made.param("x"))
    assert run_task(made, "show", params={"x": 9}).value == [9, 9]
    assert run_task(made, "show", params={"x": 1}, run={"conf": {"x": 5}}).value == [5, 5]


def test_async_functions_are_awaited() -> None:
    async def wait() -> str:
        await asyncio.sleep(0)
        return "done"

    assert run_task(single(wait), "t").value == "done"


def test_a_failure_keeps_the_users_part_of_the_traceback() -> None:
    def boom() -> None:
        raise ValueError("no such row")

    result = run_task(single(boom), "t")
    assert (result.outcome, result.retry_allowed) == ("failed", True)
    assert result.error is not None
    assert (result.error["type"], result.error["message"]) == ("ValueError", "no such row")
    assert __file__ in result.error["traceback"] and "sdk/runtime.py" not in result.error["traceback"]


def raising(error: BaseException) -> Any:
    def fail() -> None:
        raise error

    return single(fail)


@pytest.mark.parametrize(
    ("error", "outcome", "retry"),
    [
        (FailTask("never"), "failed", False),
        (SkipTask("not today"), "skipped", True),
        (SystemExit(3), "failed", True),
        (SystemExit(0), "success", True),
        (KeyboardInterrupt(), "failed", True),
    ],
)
def test_how_a_task_may_end(error: BaseException, outcome: str, retry: bool) -> None:
    result = run_task(raising(error), "t")
    assert (result.outcome, result.retry_allowed) == (outcome, retry)


def test_what_cannot_be_stored_fails_for_good_and_says_where() -> None:
    result = run_task(single(lambda: {"rows": [object()]}), "t")
    assert (result.outcome, result.retry_allowed) == ("failed", False)
    assert result.error is not None and "['rows'][0]" in result.error["message"]
    large = run_task(single(lambda: "x" * 2_000_000), "t")
    assert large.error is not None and "limit" in large.error["message"]


def test_results_may_be_left_unstored() -> None:
    assert run_task(single(object, do_xcom_push=False), "t").outcome == "success"


def test_a_time_out_is_recorded_as_one_even_if_it_was_caught() -> None:
    def slow() -> None:
        try:
            time.sleep(30)
        except Exception:
            return

    def stubborn() -> None:
        try:
            time.sleep(30)
        except BaseException:
            return

    async def waits() -> None:
        await asyncio.sleep(30)

    for function in (slow, stubborn, waits):
        result = run_task(single(function, execution_timeout=0.05), "t")
        assert result.outcome == "timed_out"
        assert result.error is not None and "0.05 s" in result.error["message"]


def test_an_operator_is_told_to_end_what_it_started() -> None:
    ended: list[str] = []

    class Long(BaseOperator):
        def execute(self, context: Context) -> None:
            time.sleep(30)

        def on_kill(self) -> None:
            ended.append(self.task_id)

    with DAG("d") as made:
        Long(task_id="t", execution_timeout=0.05)
    assert run_task(made, "t").outcome == "timed_out"
    assert ended == ["t"]


def test_every_outlet_gets_one_event_on_success_only() -> None:
    made = single(lambda: None, outlets=[ORDERS, SUMS])
    none = {"extra": {}, "key": None}
    assert run_task(made, "t").events == [{"asset": "orders", **none}, {"asset": "sums", **none}]
    failing = single(lambda: 1 / 0, outlets=[ORDERS])
    assert run_task(failing, "t").events == []


def test_extra_may_be_set_updated_yielded_or_several() -> None:
    def writes(outlet_events: Any) -> None:
        outlet_events[ORDERS].extra = {"rows": 5}
        outlet_events["sums"].extra["day"] = "monday"

    def yields() -> Any:
        yield Metadata(ORDERS, {"rows": 5})
        yield Metadata(ORDERS, {"more": 1})
        yield Metadata(SUMS, {"n": 1}, key="k1")
        return "result"

    def several(outlet_events: Any) -> None:
        for n in (1, 2):
            outlet_events[ORDERS].add({"n": n}, key=f"row-{n}")

    both = [ORDERS, SUMS]
    assert [e["extra"] for e in run_task(single(writes, outlets=both), "t").events] == [{"rows": 5}, {"day": "monday"}]
    result = run_task(single(yields, outlets=both), "t")
    assert result.value == "result"
    assert result.events == [
        {"asset": "orders", "extra": {"rows": 5, "more": 1}, "key": None},
        {"asset": "sums", "extra": {"n": 1}, "key": "k1"},
    ]
    added = run_task(single(several, outlets=[ORDERS]), "t").events
    assert [(e["extra"], e["key"]) for e in added] == [({"n": 1}, "row-1"), ({"n": 2}, "row-2")]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda events: events[SUMS], "'sums' is no outlet of this task; its outlets are: orders"),
        (lambda events: events[ORDERS].add({}, key=""), "key is empty"),
        (lambda events: setattr(events[ORDERS], "extra", {"x": object()}), "extra of outlet 'orders'"),
        (lambda events: setattr(events[ORDERS], "extra", "x" * 300_000), "limit"),
    ],
)
def test_a_wrong_outlet_event_says_what_is_allowed(use: Any, words: str) -> None:
    def tell(outlet_events: Any) -> None:
        use(outlet_events)

    result = run_task(single(tell, outlets=[ORDERS]), "t")
    assert result.outcome == "failed" and result.events == []
    assert result.error is not None and words in result.error["message"]


def test_triggering_events_are_grouped_in_order_and_fetched_once() -> None:
    def show(triggering_asset_events: Any) -> Any:
        events = triggering_asset_events
        assert events["orders"] == events[ORDERS] and ORDERS in events and SUMS not in events
        assert [asset.name for asset in events] == ["orders", "prices"]
        assert (events[ORDERS][0].source_dag_id, events[ORDERS][0].source_run_id) == ("up", None)
        return [[e.id, e.extra, e.key, e.timestamp.isoformat()] for e in events[ORDERS]]

    store = Store([event(1, "orders", {"n": 1}, "k"), event(2, "prices"), event(3, "orders", {TAG: "?"})])
    result = run_task(single(show), "t", store)
    at = "2026-01-31T09:30:00+00:00"
    assert result.value == [[1, {"n": 1}, "k", at], [3, {TAG: "dict", "value": {TAG: "?"}}, None, at]]
    assert store.asked == [("events",)]


def test_inlet_events_read_no_more_than_asked_for() -> None:
    def show(inlet_events: Any) -> Any:
        history = inlet_events[ORDERS]
        return [history[-1].id, [e.id for e in history[-2:]], len(history), [e.id for e in history]]

    store = Store(inlets=[event(n, "orders") for n in (1, 2, 3)])
    assert run_task(single(show, inlets=[ORDERS]), "t", store).value == [3, [2, 3], 3, [1, 2, 3]]
    assert store.asked[:2] == [("inlet", "orders", 1), ("inlet", "orders", 2)]


def test_branches_choose_tasks_and_groups() -> None:
    def made(choice: Any) -> DAG:
        with DAG("d") as found:
            fork = BranchPythonOperator(task_id="fork", python_callable=lambda: choice)
            with TaskGroup("g") as group:
                EmptyOperator(task_id="x") >> EmptyOperator(task_id="y")
            fork >> [EmptyOperator(task_id="a"), EmptyOperator(task_id="b"), group]
        return found

    assert run_task(made("a"), "fork").skip == {"branch": ["a"]}
    assert run_task(made(["a", "g"]), "fork").skip == {"branch": ["a", "g.x"]}
    assert run_task(made(None), "fork").skip == {"branch": []}
    unknown = run_task(made("c"), "fork")
    assert unknown.error is not None and "['a', 'b', 'g.x']" in unknown.error["message"]
    assert run_task(made(5), "fork").outcome == "failed"


def test_branch_and_short_circuit_decorators() -> None:
    @task.branch
    def pick() -> str:
        return "a"

    @task.short_circuit(ignore_downstream_trigger_rules=False)
    def go(yes: bool) -> bool:
        return yes

    with DAG("d") as made:
        pick() >> EmptyOperator(task_id="a")
        go(True)
        go(False)
    assert run_task(made, "pick").skip == {"branch": ["a"]}
    assert run_task(made, "go").skip is None
    stopped = run_task(made, "go__1")
    assert (stopped.outcome, stopped.skip, stopped.value) == ("success", {"short_circuit": False}, False)


def test_shell_commands(capfd: pytest.CaptureFixture[str]) -> None:
    with DAG("d") as made:
        BashOperator(task_id="ok", bash_command="echo one; echo $WORD", env={"WORD": "two"}, append_env=True)
        BashOperator(task_id="skip", bash_command="exit 99")
        BashOperator(task_id="bad", bash_command="exit 3")
    assert run_task(made, "ok").value == "two"
    assert "one\ntwo" in capfd.readouterr().out
    assert run_task(made, "skip").outcome == "skipped"
    bad = run_task(made, "bad")
    assert bad.outcome == "failed" and bad.error is not None and "code 3" in bad.error["message"]


def test_a_timed_out_command_is_ended() -> None:
    with DAG("d") as made:
        BashOperator(task_id="t", bash_command="sleep 30", execution_timeout=0.1)
    assert run_task(made, "t").outcome == "timed_out"


def test_templates_are_rendered_where_they_are_allowed() -> None:
    @task
    def show(text: str) -> str:
        return text

    with DAG("d") as made:
        BashOperator(task_id="sh", bash_command="echo {{ ds }} {{ params.x }} {{ macros.ds_add(ds, 1) }}")
        show("{{ run_id }}")
        show("{{ missing }}")
        show("{{ ds }}")
    timed = {"run_id": "r1", "logical_date": "2026-01-31T00:00:00Z"}
    assert run_task(made, "sh", run=timed, params={"x": 5}).value == "2026-01-31 5 2026-02-01"
    assert run_task(made, "show", run=timed).value == "r1"
    wrong = run_task(made, "show__1", run=timed)
    assert (wrong.outcome, wrong.retry_allowed) == ("failed", False)
    assert wrong.error is not None and "'missing' is undefined" in wrong.error["message"]
    undated = run_task(made, "show__2", run={"run_id": "r1", "run_type": "asset_triggered"})
    assert (
        undated.error is not None and "'ds' is undefined (a run that events started has no" in undated.error["message"]
    )


def test_sensors_look_until_they_find() -> None:
    seen: list[int] = []

    class Wait(BaseSensorOperator):
        def poke(self, context: Context) -> PokeReturnValue:
            seen.append(1)
            return PokeReturnValue(len(seen) == 3, "found")

    @task.sensor(poke_interval=0, timeout=0, soft_fail=True)
    def never() -> bool:
        return False

    with DAG("d") as made:
        Wait(task_id="w", poke_interval=0.001)
        Wait(task_id="late", poke_interval=5, timeout=1)
        never()
    assert run_task(made, "w").value == "found"
    assert run_task(made, "never").outcome == "skipped"
    late = run_task(made, "late")
    assert (late.outcome, late.retry_allowed) == ("failed", False)


def test_bash_functions() -> None:
    @task.bash
    def greet(name: str) -> str:
        return f"echo hello {name}"

    with DAG("d") as made:
        greet("you")
    assert run_task(made, "greet").value == "hello you"


def test_a_task_function_called_inside_a_task_is_told() -> None:
    @task
    def inner() -> int:
        return 1

    def outer() -> Any:
        return inner()

    result = run_task(single(outer), "t")
    assert result.error is not None and "inner.function" in result.error["message"]
    assert run_task(single(inner.function), "t").value == 1


def test_a_task_that_is_gone_fails_for_good() -> None:
    result = run_task(single(lambda: 1), "other")
    assert (result.outcome, result.retry_allowed) == ("failed", False)


def test_variables_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from onceflow import Variable

    monkeypatch.setenv("ONCEFLOW_VAR_COLOUR", "red")
    monkeypatch.setenv("AIRFLOW_VAR_LIMITS", '{"max": 3}')
    assert Variable.get("colour") == "red"
    assert Variable.get("limits", deserialize_json=True) == {"max": 3}
    assert Variable.get("other", default=None) is None
    with pytest.raises(KeyError, match="ONCEFLOW_VAR_OTHER"):
        Variable.get("other")
