"""The types of the arguments of tasks and DAGs, for type checkers; `options.py` holds what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from onceflow.model.states import TriggerRule

if TYPE_CHECKING:
    from onceflow.sdk.asset import Asset
    from onceflow.sdk.consume import ConsumeArg
    from onceflow.sdk.params import Param

Seconds = timedelta | float
Rule = (
    TriggerRule
    | Literal[
        "all_success",
        "all_failed",
        "all_done",
        "all_done_min_one_success",
        "all_done_setup_success",
        "one_success",
        "one_failed",
        "one_done",
        "none_failed",
        "none_skipped",
        "none_failed_min_one_success",
        "all_skipped",
        "always",
    ]
)
Callback = Callable[..., Any] | Sequence[Callable[..., Any]] | None


class IgnoredTaskOptions(TypedDict, total=False):
    """Airflow's arguments that have no effect yet."""

    allow_nested_operators: bool
    depends_on_past: bool
    email: str | Sequence[str] | None
    email_on_failure: bool
    email_on_retry: bool
    end_date: datetime | None
    executor_config: dict[str, Any] | None
    map_index_template: str | None
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None
    on_execute_callback: Callback
    on_failure_callback: Callback
    on_retry_callback: Callback
    on_skipped_callback: Callback
    on_success_callback: Callback
    pool: str | None
    pool_slots: int
    post_execute: Callable[..., Any] | None
    pre_execute: Callable[..., Any] | None
    render_template_as_native_obj: bool
    resources: dict[str, Any] | None
    run_as_user: str | None
    sla: timedelta | None
    show_return_value_in_logs: bool
    start_date: datetime | None
    ui_color: str
    ui_fgcolor: str
    wait_for_downstream: bool
    wait_for_past_depends_before_skipping: bool
    weight_rule: str


class TaskOptions(IgnoredTaskOptions, total=False):
    """The arguments that every task takes, besides `task_id`."""

    retries: int | None
    retry_delay: Seconds
    retry_exponential_backoff: bool | float
    max_retry_delay: Seconds | None
    execution_timeout: Seconds | None
    trigger_rule: Rule
    outlets: Asset | Sequence[Asset] | None
    inlets: Asset | Sequence[Any] | None
    priority_weight: int
    queue: str
    executor: str | None
    isolation: Literal["auto", "fork", "fresh"]
    is_setup: bool
    is_teardown: bool
    on_failure_fail_dagrun: bool
    ignore_downstream_trigger_rules: bool
    do_xcom_push: bool
    owner: str
    doc: str | None
    doc_md: str | None
    doc_json: str | None
    doc_yaml: str | None
    doc_rst: str | None
    task_display_name: str | None


class PythonTaskOptions(TaskOptions, total=False):
    """The arguments of `@task`."""

    task_id: str
    multiple_outputs: bool
    templates_dict: dict[str, Any] | None
    params: Mapping[str, Any] | None


class SensorTaskOptions(PythonTaskOptions, total=False):
    """The arguments of `@task.sensor`."""

    poke_interval: Seconds
    timeout: Seconds
    soft_fail: bool
    mode: Literal["poke", "reschedule"]


class DagOptions(TypedDict, total=False):
    """The arguments of a DAG, besides `dag_id` and `schedule`."""

    consume: ConsumeArg | None
    start_date: datetime | None
    end_date: datetime | None
    catchup: bool
    max_active_runs: int
    max_active_tasks: int
    max_rounds: int
    max_runs_per_minute: int | None
    dagrun_timeout: Seconds | None
    description: str | None
    doc_md: str | None
    tags: Sequence[str] | set[str] | None
    owner: str
    params: Mapping[str, Param | Any] | None
    default_args: Mapping[str, Any] | None
    previous_id: str
    is_paused_upon_creation: bool | None
    while_paused: Literal["hold", "discard"]
    auto_register: bool
    access_control: Any
    allowed_run_types: Any
    dag_display_name: str | None
    deadline: Any
    default_view: str
    disable_bundle_versioning: bool
    fail_fast: bool
    jinja_environment_kwargs: dict[str, Any] | None
    max_consecutive_failed_dag_runs: int
    on_failure_callback: Callback
    on_success_callback: Callback
    orientation: str
    owner_links: dict[str, str] | None
    render_template_as_native_obj: bool
    rerun_with_latest_version: bool
    sla_miss_callback: Callback
    template_searchpath: str | Sequence[str] | None
    template_undefined: Any
    user_defined_filters: dict[str, Any] | None
    user_defined_macros: dict[str, Any] | None
