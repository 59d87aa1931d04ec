"""Runs one attempt of a task in its guest: arguments in, code, result out.

The guest calls `execute(dag, request, channel)`. The request is a plain object: `run` (id, run_id, run_type,
logical_date, conf, created_at, started_at), dag_id, task_id, map_index, attempt, try_number, max_tries, token, params.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from onceflow.model.errors import DagError, InputError
from onceflow.sdk.context import Context, active
from onceflow.sdk.dag import DAG
from onceflow.sdk.exceptions import FailTask, SkipTask, TaskTimeout
from onceflow.sdk.operator import INTERNAL, BaseOperator
from onceflow.sdk.options import TASK_OPTIONS
from onceflow.sdk.outcome import Branch, ShortCircuit
from onceflow.sdk.sensor import SensorTimeout
from onceflow.sdk.taskrun import Channel, TaskRun, build, encoded_xcom
from onceflow.sdk.templates import render
from onceflow.sdk.where import PACKAGE
from onceflow.sdk.xcom import resolve

__all__ = ["Channel", "Result", "execute"]

FINAL = (FailTask, SensorTimeout, DagError, InputError)  # trying again would not help


@dataclass
class Result:
    """What came of an attempt. `value` and the extras of `events` are in the encoded form of `model.serialize`.

    skip: None, {"branch": [chosen task ids]} or {"short_circuit": whether the rules of what follows are ignored}
    """

    outcome: Literal["success", "failed", "skipped", "timed_out"]
    value: Any = None
    retry_allowed: bool = True
    error: dict[str, str] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    skip: dict[str, Any] | None = None


def execute(dag: DAG, request: Mapping[str, Any], channel: Channel) -> Result:
    """Run the task; every exception that its code raises becomes part of the result."""
    limit = Deadline(0)
    try:
        task = _copy(dag.get_task(request["task_id"]))
        run = TaskRun(dag, task, request, channel)
        context = build(run)
        limit = Deadline(_seconds(task))
        with active(context), limit.armed():
            result = _perform(task, run, context)
        return limit.timed_out(task) if limit.expired else result
    except TaskTimeout as error:
        return Result("timed_out", error=describe(error))
    except SkipTask as error:
        return Result("skipped", error=describe(error) if error.args else None)
    except SystemExit as error:
        if error.code in (None, 0):
            return Result("success")
        return Result("failed", error=describe(error))
    except BaseException as error:
        return Result("failed", retry_allowed=not isinstance(error, FINAL), error=describe(error))


def _perform(task: BaseOperator, run: TaskRun, context: Context) -> Result:
    fill_in(task, run, context)
    try:
        task.pre_execute(context)
        value = task.execute(context)
        task.post_execute(context, value)
    except TaskTimeout:
        task.on_kill()
        raise
    skip: dict[str, Any] | None = None
    if isinstance(value, Branch):
        skip, value = {"branch": list(value.chosen)}, value.value
    elif isinstance(value, ShortCircuit):
        skip, value = {"short_circuit": value.ignore_rules}, value.value
    return Result("success", _stored(task, value, run), events=context["outlet_events"].all(), skip=skip)


def _stored(task: BaseOperator, value: Any, run: TaskRun) -> Any:
    """The result's stored form; with multiple outputs each of its keys is stored as well."""
    if value is None or not task.do_xcom_push:
        return None
    encoded = encoded_xcom(value, f"result of task {task.task_id!r}")
    if task.multiple_outputs and isinstance(value, dict):
        for key, part in value.items():
            run.xcom_set(key, part)
    return encoded


def fill_in(task: BaseOperator, run: TaskRun, context: Context) -> None:
    """Put the values of upstream results, parameters and templates into the task's attributes."""
    for name, value in list(vars(task).items()):
        if name not in INTERNAL and name not in TASK_OPTIONS:
            found = resolve(value, run)
            if name in task.template_fields:
                found = render(found, context)
            if found is not value:
                setattr(task, name, found)


def _copy(task: BaseOperator) -> BaseOperator:
    """A copy to fill in, so that the DAG stays as it was written."""
    made = object.__new__(type(task))
    made.__dict__.update(vars(task))
    return made


def _seconds(task: BaseOperator) -> float:
    value = getattr(task, "execution_timeout", None)
    return 0.0 if value is None else float(TASK_OPTIONS["execution_timeout"].convert(value))


class Deadline:
    """Raises TaskTimeout in the main thread after so many seconds; 0 = never."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.expired = False

    def _strike(self, *_: Any) -> None:
        self.expired = True
        raise TaskTimeout(f"the task ran longer than its execution_timeout of {self.seconds:g} s")

    @contextmanager
    def armed(self) -> Generator[None, None, None]:
        if not self.seconds or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGALRM, self._strike)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def timed_out(self, task: BaseOperator) -> Result:
        """The result of a task that caught its time-out and went on."""
        message = f"task {task.task_id!r} caught its time-out of {self.seconds:g} s and returned"
        return Result("timed_out", error={"type": "TaskTimeout", "message": message, "traceback": ""})


def describe(error: BaseException) -> dict[str, str]:
    """An exception as type, message and the traceback of the user's part of the stack."""
    kind = type(error)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    place = error.__traceback__
    while place is not None and place.tb_frame.f_code.co_filename.startswith(PACKAGE):
        place = place.tb_next
    lines = traceback.format_exception(kind, error, place or error.__traceback__)
    return {"type": name, "message": str(error), "traceback": "".join(lines)}
