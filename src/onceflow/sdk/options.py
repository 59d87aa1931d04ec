"""The arguments of tasks and DAGs in one table each: name, default, conversion to the stored form.

An argument of Airflow that has no effect here yet is accepted with a warning that names it (unless it has Airflow's own
default); an argument that neither knows is a DagError with the nearest names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

from onceflow.model.errors import DagError
from onceflow.model.states import TriggerRule

MOST = 2**31 - 1
"""The largest whole number that a DAG may say; it fits every column of the database."""
LONGEST = 10_000_000_000
"""Seconds that are too long; with less than this no time from now on is out of the database's range."""


class NotAllowed(Exception):
    """A value is not allowed; the text says what is."""


class Option(NamedTuple):
    """One argument: its default, how a value becomes its stored form, and the stored field's name."""

    default: Any
    convert: Callable[[Any], Any]
    stored: str = ""


def whole(least: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
            raise NotAllowed(f"a whole number, {least} or more, up to {MOST}")
        return value

    return convert


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise NotAllowed("True or False")
    return value


def text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise NotAllowed("a text")
    return value


def seconds(value: Any) -> float:
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < LONGEST:
        raise NotAllowed(f"a timedelta or a number of seconds, 0 or more, less than {LONGEST}")
    return float(number)


def duration(value: Any) -> float:
    number = seconds(value)
    if number == 0:
        raise NotAllowed(f"a timedelta or a number of seconds, more than 0, less than {LONGEST}")
    return number


def optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def backoff(value: Any) -> float:
    """True is Airflow's doubling; a number is the factor per retry."""
    if isinstance(value, bool):
        return 2.0 if value else 0.0
    if not isinstance(value, (int, float)) or (value != 0 and value < 1):
        raise NotAllowed("True, False, or a factor of 1 or more")
    return float(value)


def one_of(*allowed: str) -> Callable[[Any], str]:
    def convert(value: Any) -> str:
        if value not in allowed:
            raise NotAllowed(", ".join(allowed))
        return value

    return convert


def trigger_rule(value: Any) -> TriggerRule:
    try:
        return TriggerRule(value.value if isinstance(value, Enum) else value)
    except ValueError as error:
        raise NotAllowed(", ".join(TriggerRule)) from error


def moment(value: Any) -> datetime:
    """A date in UTC; one without a time zone is UTC."""
    if not isinstance(value, datetime):
        raise NotAllowed("a datetime")
    at = value if value.tzinfo is None else value.astimezone(UTC)
    return datetime(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond, UTC)


def texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise NotAllowed("a list of texts")
    found = tuple(sorted(value) if isinstance(value, (set, frozenset)) else value)
    if not all(isinstance(item, str) for item in found):
        raise NotAllowed("a list of texts")
    return found


TASK_OPTIONS: Mapping[str, Option] = {
    "retries": Option(0, lambda value: 0 if value is None else whole(0)(value)),
    "retry_delay": Option(timedelta(seconds=300), seconds),
    "retry_exponential_backoff": Option(False, backoff),
    "max_retry_delay": Option(None, optional(duration)),
    "execution_timeout": Option(None, optional(duration)),
    "trigger_rule": Option(TriggerRule.ALL_SUCCESS, trigger_rule),
    "priority_weight": Option(1, whole(0)),
    "queue": Option("default", text),
    "executor": Option("local", lambda value: text(value) or "local"),
    "isolation": Option("auto", one_of("auto", "fork", "fresh")),
    "is_setup": Option(False, flag),
    "is_teardown": Option(False, flag),
    "on_failure_fail_dagrun": Option(False, flag),
    "ignore_downstream_trigger_rules": Option(True, flag),
}

# Arguments with their own handling in the operator.
TASK_OWN: Mapping[str, Any] = {
    "inlets": None,
    "outlets": None,
    "owner": "airflow",
    "do_xcom_push": True,
    "doc": None,
    "doc_md": None,
    "doc_json": None,
    "doc_yaml": None,
    "doc_rst": None,
    "task_display_name": None,
}

# Airflow's arguments that are accepted and have no effect yet, with the values that need no warning.
TASK_IGNORED: Mapping[str, tuple[Any, ...]] = {
    "allow_nested_operators": (True,),
    "depends_on_past": (False,),
    "email": ("*",),
    "email_on_failure": (False,),
    "email_on_retry": (False,),
    "end_date": (),
    "executor_config": ({},),
    "map_index_template": (),
    "max_active_tis_per_dag": (),
    "max_active_tis_per_dagrun": (),
    "on_execute_callback": ([],),
    "on_failure_callback": ([],),
    "on_retry_callback": ([],),
    "on_skipped_callback": ([],),
    "on_success_callback": ([],),
    "pool": ("default_pool",),
    "pool_slots": (1,),
    "post_execute": (),
    "pre_execute": (),
    "render_template_as_native_obj": (False,),
    "resources": (),
    "run_as_user": (),
    "sla": (),
    "show_return_value_in_logs": (True, False),
    "start_date": (),
    "ui_color": ("*",),
    "ui_fgcolor": ("*",),
    "wait_for_downstream": (False,),
    "wait_for_past_depends_before_skipping": (False,),
    "weight_rule": ("downstream",),
}

DAG_OPTIONS: Mapping[str, Option] = {
    "start_date": Option(None, optional(moment)),
    "end_date": Option(None, optional(moment)),
    "catchup": Option(False, flag),
    "max_active_runs": Option(16, whole(1)),
    "max_active_tasks": Option(16, whole(1)),
    "max_rounds": Option(5, whole(0)),
    "max_runs_per_minute": Option(None, optional(whole(0))),
    "dagrun_timeout": Option(None, optional(duration)),
    "description": Option("", text),
    "doc_md": Option(None, text, "doc"),
    "tags": Option((), lambda value: texts(value or ())),
    "owner": Option("", text),
    "previous_id": Option("", text),
    "is_paused_upon_creation": Option(None, optional(flag), "paused_on_creation"),
    "while_paused": Option("hold", one_of("hold", "discard")),
}

DAG_IGNORED: Mapping[str, tuple[Any, ...]] = {
    "access_control": (),
    "allowed_run_types": (),
    "dag_display_name": ("*",),
    "deadline": (),
    "default_view": ("*",),
    "disable_bundle_versioning": (False,),
    "fail_fast": (False,),
    "jinja_environment_kwargs": (),
    "max_consecutive_failed_dag_runs": (0,),
    "on_failure_callback": ([],),
    "on_success_callback": ([],),
    "orientation": ("*",),
    "owner_links": ("*",),
    "render_template_as_native_obj": (False,),
    "rerun_with_latest_version": (False,),
    "sla_miss_callback": (),
    "template_searchpath": (),
    "template_undefined": (),
    "user_defined_filters": ({},),
    "user_defined_macros": ({},),
}

DAG_GONE: Mapping[str, str] = {
    "schedule_interval": "use schedule=",
    "timetable": "use schedule=",
    "concurrency": "use max_active_tasks=",
    "fail_stop": "use fail_fast=",
}


def convert(name: str, option: Option, value: Any, *, owner: str, where: str) -> Any:
    """The stored form of an argument. `owner` says whose it is: "task 'a'", "DAG 'etl'"."""
    try:
        return option.convert(value)
    except NotAllowed as error:
        raise DagError(f"{name} of {owner} is {value!r}", where=where, remedy=f"allowed: {error}") from None


def warnings_for(given: Mapping[str, Any], ignored: Mapping[str, tuple[Any, ...]], owner: str, where: str) -> list[str]:
    """One sentence per argument that was given, is known to Airflow and has no effect here yet."""
    found = []
    for name, value in given.items():
        if name in ignored and value is not None and not any(silent in ("*", value) for silent in ignored[name]):
            found.append(f"{where}: {name} of {owner} has no effect in Onceflow yet")
    return found


def unknown(name: str, known: Iterable[str], *, owner: str, where: str) -> DagError:
    """The error for an argument nobody knows, with the nearest names."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    remedy = DAG_GONE.get(name) or (f"did you mean {', '.join(close)}?" if close else "remove it")
    return DagError(f"{owner} has an unknown argument {name}", where=where, remedy=remedy)
