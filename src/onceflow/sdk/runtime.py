"""Runs one attempt of a task in its guest: arguments in, code, result out.

The guest calls `execute(dag, request, channel)`. The request is a plain object: `run` (id, run_id, run_type,
logical_date, conf, created_at, started_at), dag_id, task_id, map_index, attempt, try_number, max_tries, token, params.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from onceflow.model.errors import DagError, InputError
from onceflow.model.text import message_of, shortened, storable
from onceflow.sdk.context import Context, enter, leave
from onceflow.sdk.dag import DAG
from onceflow.sdk.exceptions import FailTask, SkipTask, TaskTimeout
from onceflow.sdk.operator import INTERNAL, BaseOperator
from onceflow.sdk.operators import PythonOperator, signature_of
from onceflow.sdk.options import TASK_OPTIONS
from onceflow.sdk.outcome import Branch, ShortCircuit
from onceflow.sdk.sensor import SensorTimeout
from onceflow.sdk.taskrun import Channel, TaskRun, context_of, encoded_xcom
from onceflow.sdk.templates import is_template, render
from onceflow.sdk.where import PACKAGE
from onceflow.sdk.xcom import has_references, resolve

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
    limit = NO_LIMIT
    try:
        task = dag.get_task(request["task_id"])
        names = to_fill(task)
        if names:
            task = _copy(task)
        run = TaskRun(dag, task, request, channel)
        context = Context(lambda: context_of(run))
        if task.execution_timeout is not None:
            limit = Deadline(_seconds(task.execution_timeout))
        enter(context)
        try:
            limit.arm()
            fill_in(task, names, run, context)
            result = _perform(task, run, context)
        finally:
            limit.disarm()
            leave()
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
    events = run.outlet_events.all() if task.outlets else []
    return Result("success", _stored(task, value, run), events=events, skip=skip)


def _stored(task: BaseOperator, value: Any, run: TaskRun) -> Any:
    """The result's stored form; with multiple outputs each of its keys is stored as well."""
    if value is None or not task.do_xcom_push:
        return None
    encoded = encoded_xcom(value, f"result of task {task.task_id!r}")
    if task.multiple_outputs and isinstance(value, dict):
        for key, part in value.items():
            run.xcom_set(key, part)
    return encoded


def learn(dags: Iterable[DAG]) -> None:
    """Look at all tasks now, so that no attempt has to: what is to be filled in, and what their functions take."""
    for dag in dags:
        for task in dag.tasks:
            to_fill(task)
            if isinstance(task, PythonOperator):
                signature_of(task.python_callable)


def to_fill(task: BaseOperator) -> tuple[str, ...]:
    """The attributes that hold results of other tasks, parameters or templates; looked up once."""
    if task.to_fill is None:
        task.to_fill = tuple(
            name
            for name, value in vars(task).items()
            if name not in INTERNAL
            and name not in TASK_OPTIONS
            and (has_references(value) or (name in task.template_fields and is_template(value)))
        )
    return task.to_fill


def fill_in(task: BaseOperator, names: Iterable[str], run: TaskRun, context: Context) -> None:
    """Put the values of upstream results, parameters and templates into the task's attributes."""
    for name in names:
        found = resolve(getattr(task, name), run)
        setattr(task, name, render(found, context) if name in task.template_fields else found)


def _copy(task: BaseOperator) -> BaseOperator:
    """A copy to fill in, so that the DAG stays as it was written."""
    made = object.__new__(type(task))
    made.__dict__.update(vars(task))
    return made


def _seconds(timeout: Any) -> float:
    return float(TASK_OPTIONS["execution_timeout"].convert(timeout))


class Deadline:
    """Raises TaskTimeout in the main thread after so many seconds; 0 = never."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.expired = False
        self._before: Any = None

    def _strike(self, *_: Any) -> None:
        self.expired = True
        raise TaskTimeout(f"the task ran longer than its execution_timeout of {self.seconds:g} s")

    def arm(self) -> None:
        if self.seconds and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGALRM, self._strike)
            signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def disarm(self) -> None:
        if self._before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)

    def timed_out(self, task: BaseOperator) -> Result:
        """The result of a task that caught its time-out and went on."""
        message = f"task {task.task_id!r} caught its time-out of {self.seconds:g} s and returned"
        return Result("timed_out", error={"type": "TaskTimeout", "message": message, "traceback": ""})


NO_LIMIT = Deadline(0)


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
    return {"type": name, "message": message_of(error), "traceback": storable(shortened("".join(lines)))}
