from __future__ import annotations

from datetime import timedelta

import pytest
from authoring import edges, file_of, spec_of, task_of

from onceflow import (
    DAG,
    Asset,
    BaseOperator,
    BashOperator,
    Context,
    EmptyOperator,
    PythonOperator,
    TriggerRule,
    setup,
    task,
    teardown,
)
from onceflow.model.errors import DagError
from onceflow.sdk.options import DAG_IGNORED, DAG_OPTIONS, TASK_IGNORED, TASK_OPTIONS, TASK_OWN
from onceflow.sdk.typed import DagOptions, TaskOptions


@task
def one() -> int:
    return 1


@task
def add(x: int, y: int = 0) -> int:
    """Adds."""
    return x + y


def test_every_argument_of_a_task_reaches_the_spec() -> None:
    with DAG("d") as made:
        EmptyOperator(
            task_id="t",
            retries=3,
            retry_delay=timedelta(seconds=10),
            retry_exponential_backoff=True,
            max_retry_delay=60,
            execution_timeout=timedelta(minutes=1),
            trigger_rule="one_failed",
            outlets=[Asset("out")],
            inlets=Asset("in"),
            priority_weight=5,
            queue="big",
            isolation="fresh",
            doc_md="what it does",
        )
    spec = task_of(made, "t")
    assert (spec.retries, spec.retry_delay, spec.retry_exponential_backoff, spec.max_retry_delay) == (
        3,
        10.0,
        2.0,
        60.0,
    )
    assert (spec.execution_timeout, spec.trigger_rule) == (60.0, TriggerRule.ONE_FAILED)
    assert (spec.outlets, spec.inlets) == (("out",), ("in",))
    assert (spec.priority_weight, spec.queue, spec.isolation, spec.doc) == (5, "big", "fresh", "what it does")
    assert spec.operator == "empty"


@pytest.mark.parametrize("rule", list(TriggerRule))
def test_all_trigger_rules(rule: TriggerRule) -> None:
    with DAG("d") as made:
        EmptyOperator(task_id="t", trigger_rule=rule.value)
    assert task_of(made, "t").trigger_rule is rule


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retrys": 3}, "retries"),
        ({"retries": -1}, "0 or more"),
        ({"retries": True}, "whole number"),
        ({"priority_weight": 2**31}, "2147483647"),
        ({"retry_delay": timedelta.max}, "less than 10000000000"),
        ({"retry_delay": "1s"}, "timedelta"),
        ({"trigger_rule": "all_succes"}, "all_success"),
        ({"execution_timeout": 0}, "more than 0"),
        ({"retry_exponential_backoff": 0.5}, "factor"),
        ({"outlets": ["orders"]}, "outlets are assets"),
        ({"isolation": "thread"}, "auto, fork, fresh"),
    ],
)
def test_a_wrong_argument_names_itself_its_place_and_the_remedy(options: dict[str, object], words: str) -> None:
    with DAG("d") as made, pytest.raises(DagError) as refused:
        EmptyOperator(task_id="t", **options)
        spec_of(made)
    assert words in str(refused.value)
    assert refused.value.where.startswith(__file__)


def test_tables_and_types_know_the_same_arguments() -> None:
    assert TaskOptions.__annotations__.keys() == {*TASK_OPTIONS, *TASK_OWN, *TASK_IGNORED}
    own = {"consume", "params", "default_args", "auto_register"}
    assert DagOptions.__annotations__.keys() == {*DAG_OPTIONS, *DAG_IGNORED} | own


def test_a_call_makes_a_task_and_its_result_an_edge() -> None:
    with DAG("d") as made:
        add(one(), y=add(2))
        add([one(), {"deep": one()}])
    assert made.task_ids == ["one", "add", "add__1", "one__1", "one__2", "add__2"]
    assert edges(made) == {("one", "add__1"), ("add", "add__1"), ("one__1", "add__2"), ("one__2", "add__2")}
    assert task_of(made, "add").doc == "Adds."


def test_override_makes_a_variant() -> None:
    with DAG("d") as made:
        add.override(task_id="sum", retries=2)(1)
        add(1)
    assert made.task_ids == ["sum", "add"]
    assert task_of(made, "sum").retries == 2
    assert task_of(made, "add").retries == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (add, "without x"),
        (lambda: add(1, 2, 3), "too many positional arguments"),
        (lambda: add(1, z=2), "unexpected keyword argument 'z'"),
    ],
)
def test_a_call_that_cannot_work_is_told_at_parse(call: object, words: str) -> None:
    with DAG("d"), pytest.raises(DagError, match=words) as refused:
        call()
    assert refused.value.where.startswith(__file__)


def test_names_of_the_context_need_no_value() -> None:
    @task
    def wants(ti, params, x: int = 1) -> None: ...

    with DAG("d") as made:
        wants()
    assert made.task_ids == ["wants"]


@pytest.mark.parametrize("name", ["virtualenv", "docker", "kubernetes", "nonsense"])
def test_an_unknown_task_decorator_names_those_that_exist(name: str) -> None:
    with pytest.raises(DagError, match=r"@task\.branch") as refused:
        getattr(task, name)
    assert name in refused.value.message


def test_mapping_is_refused_by_name() -> None:
    with DAG("d"), pytest.raises(DagError, match="mapped"):
        add.expand(x=[1, 2])


def test_results_cannot_be_looped_over_or_indexed_by_number() -> None:
    with DAG("d"):
        result = one()
        for use in (lambda: list(result), lambda: result[0]):
            with pytest.raises(DagError, match="while the DAG is built"):
                use()


def test_default_args_reach_those_that_take_them() -> None:
    class Copy(BaseOperator):
        def __init__(self, *, bucket: str, **kwargs) -> None:
            super().__init__(**kwargs)
            self.bucket = bucket

        def execute(self, context: Context) -> None: ...

    with DAG("d", default_args={"bucket": "b", "retries": 4, "start_date": None}) as made:
        copied = Copy(task_id="copy")
        EmptyOperator(task_id="own", retries=1)
        one()
    assert copied.bucket == "b"
    assert [task_of(made, t).retries for t in made.task_ids] == [4, 1, 4]
    assert task_of(made, "copy").operator == "Copy"
    assert not file_of(made).warnings


def test_an_operators_own_argument_may_be_a_result() -> None:
    class Copy(BaseOperator):
        def __init__(self, *, source: object, **kwargs) -> None:
            super().__init__(**kwargs)
            self.source = source

    with DAG("d") as made:
        Copy(task_id="copy", source={"rows": [one()]})
        PythonOperator(
            task_id="call", python_callable=print, op_args=[BashOperator(task_id="sh", bash_command="ls").output]
        )
    assert edges(made) == {("one", "copy"), ("sh", "call")}


def test_setup_and_teardown_decorators() -> None:
    @setup
    def make() -> str:
        return "x"

    @teardown(on_failure_fail_dagrun=True)
    def clean(name: str) -> None: ...

    with DAG("d") as made:
        made_it = make()
        made_it >> one() >> clean(made_it).as_teardown(setups=made_it)
    assert task_of(made, "make").is_setup
    spec = task_of(made, "clean")
    assert (spec.is_teardown, spec.trigger_rule) == (True, "all_done_setup_success")


def test_attributes_set_later_count() -> None:
    with DAG("d") as made:
        t = EmptyOperator(task_id="t")
        t.doc_md = "later"
        t.retries = 7
        made.doc_md = "# DAG"
    assert (task_of(made, "t").doc, task_of(made, "t").retries, spec_of(made).doc) == ("later", 7, "# DAG")


def test_a_python_operator_needs_a_function() -> None:
    with DAG("d"), pytest.raises(DagError, match="python_callable"):
        PythonOperator(task_id="t", python_callable=print())


def test_deferring_is_refused_by_name() -> None:
    with DAG("d"), pytest.raises(DagError, match="deferred"):
        EmptyOperator(task_id="t").defer(trigger=None, method_name="x")
